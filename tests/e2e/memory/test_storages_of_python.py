"""Storages that only Python holds: whoever takes their bytes away needs Python's lock for it."""

import sys

import harness
import pytest

STORAGES = """
import threading
import torch

torch.set_num_threads(1)
ended = threading.Event()

def allocate():  # with Python's lock held, and so waits for the device's
    while not ended.is_set():
        for _ in range(50):
            torch.tensor([1.0, 2.0, 3.0])

thread = threading.Thread(target=allocate, daemon=True)
thread.start()
x = torch.randn(10000)
for _ in range(4):
    storages = [(x * float(k + 1)).untyped_storage() for k in range(1500)]
ended.set()
thread.join()
read = [torch.empty(0).set_(each) for each in storages[::100]]
print(all(torch.equal(each, x * float(100 * k + 1)) for k, each in enumerate(read)))
"""


@pytest.mark.torch_floor
def test_threads_that_have_pythons_lock_do_not_wait_with_it():
    done = harness.run([*harness.attached("32MiB"), sys.executable, "-c", STORAGES], seconds=120)
    assert done.stdout.split() == ["True"], done.stderr
    assert " 0 evictions" not in done.stderr
