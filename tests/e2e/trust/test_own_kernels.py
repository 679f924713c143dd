"""Kernels that a job has put in the place of PyTorch's before Tidepool is there."""

import sys

import harness
import pytest

JOB = """
import sys
import warnings
import torch

warnings.simplefilter("ignore")
torch.manual_seed(0)
calls = 0

def counted(a, b):
    global calls
    calls += 1
    return (a.to_dense()[:, :1] * b[:1]) + calls

library = torch.library.Library("aten", "IMPL")
library.impl("mm", counted, sys.argv[1])
if sys.argv[2:]:
    import tidepool
    tidepool.enable(budget="64MiB", device="cpu", chaos="op")
matrix = torch.rand(40, 40)
if sys.argv[1] == "SparseCPU":
    matrix = matrix.to_sparse()
x = torch.rand(40, 40)
products = [matrix.mm(x * k) for k in range(6)]
print([product.sum().item() for product in products], calls)
"""


@pytest.mark.torch_floor
@pytest.mark.parametrize("key", ["CPU", "SparseCPU"])
def test_a_kernel_of_the_jobs_is_never_run_again(key):
    plain, found = (harness.run([sys.executable, "-c", JOB, key, *options])
                    for options in ((), ("enable",)))
    assert plain.returncode == 0, plain.stderr
    assert found.stdout == plain.stdout, found.stderr
