"""With nothing evicted, a training step allocates and frees exactly as on stock PyTorch.

But for numbers: one that dies is kept for what was computed from it.
"""

import pytest
from limits_support import compile_with_torch, run_job

pytestmark = pytest.mark.torch_floor

SHOWN = 6  # events around the first difference


@pytest.fixture(scope="module")
def logs() -> dict:
    library = str(compile_with_torch("allocation_log.cpp"))
    return {mode: run_job("sequence_job.py", mode, library) for mode in ("stock", "tidepool")}


def first_difference(ours: list, stocks: list) -> str:
    """Return a description of where two sequences part, or nothing."""
    for k in range(max(len(ours), len(stocks))):
        if ours[k:k + 1] != stocks[k:k + 1]:
            around = slice(max(0, k - SHOWN), k + SHOWN)
            return f"event {k}: {ours[around]} but stock PyTorch {stocks[around]}"
    return ""


def without_frees_of_numbers(events: list) -> list:
    """Return the events without frees of one unit, which is what a number takes."""
    units = [size for kind, size in events if kind == "allocate"]
    return [[kind, which] for kind, which in events if kind != "free" or units[which] > 1]


@pytest.mark.long
def test_nothing_was_evicted_and_the_loss_is_the_same(logs: dict) -> None:
    assert logs["tidepool"]["evictions"] == 0
    assert logs["tidepool"]["loss"] == logs["stock"]["loss"]


def test_the_sizes_asked_for_are_the_same(logs: dict) -> None:
    assert len(logs["stock"]["requested"]) > 500
    assert not first_difference(logs["tidepool"]["requested"], logs["stock"]["requested"])


def test_allocations_and_frees_are_the_same_event_by_event(logs: dict) -> None:
    ours, stocks = (without_frees_of_numbers(logs[mode]["events"])
                    for mode in ("tidepool", "stock"))
    assert sum(kind == "free" for kind, _ in stocks) > 400
    assert not first_difference(ours, stocks)


def test_a_difference_would_be_seen(logs: dict) -> None:
    events = logs["stock"]["events"]
    k = next(k for k in range(len(events) - 1) if events[k][0] != events[k + 1][0])
    swapped = [*events[:k], events[k + 1], events[k], *events[k + 2:]]
    assert first_difference(swapped, events).startswith(f"event {k}:")
    assert first_difference(events[:-1], events)
