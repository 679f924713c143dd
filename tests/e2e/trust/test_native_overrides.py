"""Kernels in Python that PyTorch calls for some calls of an operator: torch._native's overrides."""

import sys

import harness
import pytest
import torch

pytest.importorskip("torch._native.registry")

JOB = """
import json
import sys
import warnings
import torch
from torch._native import registry

warnings.simplefilter("ignore")
torch.manual_seed(0)
calls = 0

def counted(a, b):
    global calls
    calls += 1
    return a * b + calls

def override():
    names = "aten", "bmm", "CPU"
    registry.register_op_override("test", *names, lambda a, b: a.shape[2] == 1, counted)
    registry._register_overrides_from_graph(*names, registry._graphs[names])

when = sys.argv[1]
if when == "first":
    override()
x = torch.rand(8, 128, 128)
made = [torch.tanh(x)]
for k in range(24):
    if when == str(k):
        override()
    made.append(torch.bmm(made[-1], x) / 64)
    made.append(torch.bmm(made[-1][:, :, :1], x[:, :1]) / 64)
print(json.dumps([each.sum().item() for each in made]), calls)
"""


@pytest.mark.parametrize(("when", "options"), [("first", ()), ("9", ("--chaos=op",))])
def test_only_what_their_operators_own_kernel_makes_is_made_again(tmp_path, when, options):
    stats = tmp_path / "stats.json"
    job = [sys.executable, "-c", JOB, when]
    harness.check_same_output(job, [*harness.attached("20MiB", *options, stats=stats), *job])
    assert harness.read_stats(stats)["rematerializations"] > 0


LIST_JOB = """
import sys
import warnings
import torch
from torch._native import registry

warnings.simplefilter("ignore")
torch.manual_seed(0)

def by_lists(a, b):
    return [(x.double() @ y.double()).float() for x, y in zip(a, b)]

names = "aten", "_foreach_mm", "CPU"
registry.register_op_override("test", *names, lambda a, b: len(a) > 1, by_lists)
registry._register_overrides_from_graph(*names, registry._graphs[names])
factors = [torch.rand(256, 256) for _ in range(16)]
others = [torch.tanh(each) for each in factors]
spare = [torch.sin(each) for each in factors]
for k in range(0, 16, 4):
    made = torch._foreach_mm(factors[k:k + 4], others[k:k + 4])
    print([each.double().sum().item() for each in made])
print([each.double().sum().item() for each in others + spare])
"""


@pytest.mark.skipif(not hasattr(torch, "_foreach_mm"), reason="PyTorch has no such operator")
@pytest.mark.parametrize("budget", ["13MiB", "64MiB"])
def test_a_list_is_not_cut_that_an_override_looks_at(budget):
    job = [sys.executable, "-c", LIST_JOB]
    harness.check_same_output(job, [*harness.attached(budget), *job])
