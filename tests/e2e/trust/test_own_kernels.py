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
    job = [sys.executable, "-c", JOB, key]
    harness.check_same_output(job, [*job, "enable"])


INNER_JOB = """
import sys
import threading
import warnings
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

warnings.simplefilter("ignore")
torch.manual_seed(0)
library = torch.library.Library("aten", "IMPL")
calls = 0

def forward(x):  # as PyTorch's on the CPU, which `binary_cross_entropy_with_logits` calls inside
    return torch.minimum(x, torch.zeros_like(x)) - torch.log1p(torch.exp(-x.abs())), torch.exp(-x)

def counted(x):
    global calls
    calls += 1
    result, buffer = forward(x)
    return result * calls, buffer

def changing(x):
    x.mul_(2)
    return forward(x)

def reading(x):
    result, buffer = forward(x)
    total.add_(table)
    return result * table, buffer

def chosen(p, count, dim=-1, largest=True, sorted=True, *, values, indices):
    values.zero_()
    indices.copy_(torch.arange(count).expand_as(indices))
    return values, indices

table = torch.rand(64, 4096 if sys.argv[1] == "drawing" else 64) + 1
total = torch.zeros(64, 64)
name = sys.argv[1]
if name == "drawing":
    library.impl("topk.values", chosen, "CPU")
else:
    library.impl("log_sigmoid_forward", globals()[name], "CPU")
if sys.argv[2:]:
    import tidepool
    tidepool.enable(budget="64MiB", device="cpu", chaos="op")
if name == "drawing":
    stopping = threading.Event()
    def ask():
        while not stopping.is_set():
            torch.default_generator.get_state()
    asking = threading.Thread(target=ask)
    asking.start()
    drawn = [torch.multinomial(table, 5) for _ in range(40)]
    stopping.set()
    asking.join()
    print(sum(each.sum().item() for each in drawn))
else:
    table = torch.tanh(table)
    x, aim = torch.rand(64, 64) - 0.5, torch.rand(64, 64)
    made = [binary_cross_entropy_with_logits(x * k, aim, reduction="none") for k in range(6)]
    made += [binary_cross_entropy_with_logits(x, aim, reduction="none") for _ in range(3)]
    library._destroy()
    made += [binary_cross_entropy_with_logits(x * k, aim, reduction="none") for k in range(6)]
    print([each.sum().item() for each in (*made, x, aim, table, total)], calls)
"""


@pytest.mark.torch_floor
@pytest.mark.parametrize(("name", "attached"), [
    ("counted", "enable"), ("changing", "enable"), ("reading", "enable"), ("reading", "run"),
    ("drawing", "enable")])
def test_a_kernel_of_the_jobs_may_run_inside_of_pytorchs_operators(name, attached):
    job = [sys.executable, "-c", INNER_JOB, name]
    harness.check_same_output(job, [*job, "enable"] if attached == "enable" else
                              [*harness.attached("64MiB", "--chaos=op"), *job])
