"""Operators that vary are found by running them repeatedly, and larger samples are larger."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from comparison import Case, Counts
from repeat_runs import Repeater, RepeatRuns, copied

LIBRARY = torch.library.Library("repeat_runs_test", "DEF")
RUNS = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def planted():
    """An operator whose results depend on how often it ran."""
    LIBRARY.define("drifts(Tensor x) -> Tensor")
    LIBRARY.impl("drifts", lambda x: x + next(RUNS), "CPU")


def found_in(function, runs: int = 3) -> tuple[dict, Counts]:
    repeater, counts = Repeater(runs), Counts()
    repeater.check(Case("", function), counts)
    return repeater.found(), counts


def test_what_varies_is_found():
    found, counts = found_in(lambda: torch.ops.repeat_runs_test.drifts(torch.ones(3)).exp())
    assert counts.cases == 1
    assert found["varied"] == {"repeat_runs_test::drifts": 1}
    assert found["outputs"] == {"repeat_runs_test::drifts": [0]}
    assert found["calls"]["aten::exp"] == 1


def test_what_draws_and_what_writes_does_not_vary():
    def run():
        x = torch.randn(8, requires_grad=True)
        y = torch.nn.functional.dropout(x * 2, 0.5)
        y.add_(1).cumsum_(0)
        y[::2].mul_(3)
        return torch.autograd.grad(y.sum(), x)

    found, counts = found_in(run)
    assert counts.cases == 1 and found["varied"] == {}
    assert {"aten::randn", "aten::cumsum_", "aten::mul", "aten::mul_"} <= set(found["calls"])


def test_a_case_is_left_as_it_is():
    def run():
        torch.manual_seed(3)
        x = torch.randn(8)
        x[1:].add_(x[:-1].clone())
        return x, torch.rand(2)

    expected = run()
    with RepeatRuns(3):
        got = run()
    assert all(map(torch.equal, expected, got))


def test_backward_is_seen_and_transposed_convolutions_are_told_apart():
    def run():
        x = torch.randn(1, 2, 5, 5, requires_grad=True)
        y = torch.nn.functional.conv_transpose2d(x, torch.randn(2, 3, 3, 3))
        return torch.autograd.grad(torch.nn.functional.conv2d(y, torch.randn(1, 3, 3, 3)).sum(), x)

    calls = found_in(run)[0]["calls"]
    assert calls["aten::convolution (transposed)"] == 1 and calls["aten::convolution"] >= 1
    assert calls["aten::convolution_backward"] >= 1


def test_copies_keep_strides_and_share_nothing():
    x = torch.arange(12.0).view(3, 4).t()[1:]
    y = copied(x)
    assert torch.equal(x, y) and x.stride() == y.stride()
    y.zero_()
    assert x.sum() > 0
    assert copied(2.5) == 2.5


def test_grown_samples_are_larger():
    script = """
import torch
import grown_cases
from torch.testing._internal.common_methods_invocations import op_db
def elements():
    operator = next(each for each in op_db if each.name == "cumsum")
    samples = operator.sample_inputs("cpu", torch.float32)
    return max(each.input.numel() for each in samples)
print(elements())
print(grown_cases.grow())
print(elements())
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, text=True,
                          capture_output=True, check=True)
    before, names, after = map(int, done.stdout.split())
    assert names >= 3 and after > 10 * before
