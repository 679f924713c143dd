"""A forked child has no budget: it gets whatever PyTorch would give it."""

import sys

import harness
import pytest

JOB = """
import os
import torch
kept = torch.ones(1000) * 2
def child(make):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            said = repr(make())
        except BaseException as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    print(os.read(read, 1000).decode())
    os.wait()
def ones(size):
    return torch.ones(size << 20, dtype=torch.uint8)
child(lambda: int(ones(600)[-1]))
child(lambda: sum(int(each[-1]) for each in [ones(200) for _ in range(4)]))
child(lambda: [ones(200 * (k % 3 + 1)).sum().item() for k in range(6)])
child(lambda: ones(150).resize_(700 << 20)[5].item() + kept.sum().item())
"""


@pytest.mark.torch_floor
def test_a_child_may_take_more_than_its_parent():
    job = [sys.executable, "-c", JOB]
    [done] = harness.check_same_output(job, [*harness.attached("64MiB"), *job])
    assert done.stderr.count("this process was forked from the job's, so that no budget holds") == 4
