"""Several interpreters in one process: Python's own check of its lock says nothing then."""

import sys

import harness
import pytest

JOB = """
import threading
import torch

interpreters = __import__(INTERPRETERS)
torch.set_num_threads(1)
interpreters.create()

def work():  # storages that only Python has are evicted with its lock
    x = torch.randn(100, 100)
    for _ in range(10):
        kept = [torch.tanh(x * 1.01).untyped_storage() for _ in range(100)]

threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("ended")
"""
INTERPRETERS = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"


@pytest.mark.torch_floor
def test_threads_beside_a_second_interpreter():
    job = f"INTERPRETERS = {INTERPRETERS!r}\n{JOB}"
    done = harness.run([*harness.attached("16MiB"), sys.executable, "-c", job], seconds=120)
    assert done.stdout.split() == ["ended"], done.stderr
