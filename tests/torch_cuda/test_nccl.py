"""What NCCL reads and writes by address is there: same values as without Tidepool."""

import pytest

pytestmark = pytest.mark.torch_floor

OF_DEVICES = ("data_parallel", "between_devices")
OF_RANKS = ("collectives", "collectives_together", "distributed_data_parallel", "hooked",
            "hooked_in_c", "futures", "left_afterwards", "never_waited_for",
            "sharded")
DEVICE = {"memory": "8GiB", "granularity": "64KiB"}
REGISTERING = (("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "1"),)
OLDER = ("TORCH_DIST_USE_NCCL2", "0")  # PyTorch has two implementations from 2.15 on
COPY = ("TIDEPOOL_OFFLOAD", "host:1GiB")
WAYS = {"evict": (), "chaos": (("TIDEPOOL_CHAOS", "op"),), "copy": (COPY,), "older": (OLDER, COPY),
        "copy_chaos": (COPY, ("TIDEPOOL_CHAOS", "offload:1"))}


def run(jobs, case, way=None):
    """Return what a case says, without Tidepool where there is no way to evict."""
    budget = {} if way is None else {"budget": "1GiB"}
    cases, devices = (OF_DEVICES, 2) if case in OF_DEVICES else (OF_RANKS, 1)
    said = jobs.json("nccl_jobs.py", *cases, environ=WAYS.get(way, ()), devices=devices,
                     **budget, **DEVICE)
    return {**said[case], "misuses": said["misuses"]}


@pytest.mark.parametrize("case", OF_DEVICES + OF_RANKS)
@pytest.mark.parametrize("way", WAYS)
def test_nccl_finds_what_was_evicted(jobs, way, case):
    plain, found = run(jobs, case), run(jobs, case, way)
    assert found["prints"] == plain["prints"]
    assert found["races"] == plain["races"] == []
    assert found["misuses"] == []


@pytest.mark.parametrize("case", OF_DEVICES + OF_RANKS)
def test_tensors_had_left(jobs, case):
    way = "copy" if case == "never_waited_for" else "evict"
    assert run(jobs, case, way)["evicted"] > 0


@pytest.mark.parametrize(("way", "by_copy"), [("evict", False), ("copy", True), ("older", True)])
def test_what_collectives_worked_on_leaves_once_nobody_can_wait_for_it(jobs, way, by_copy):
    found = run(jobs, "left_afterwards", way)
    assert found["computed"] == [True] * 3  # it can be computed again
    assert found["worked_on"] == [by_copy] * 3
    assert found["held"] == [False]
    assert found["dropped"] == [by_copy]
    # Works of one group never say when they have begun.
    assert found["together"] == [by_copy and not found["grouped"]] * 2


def test_no_memory_is_registered_whose_pages_may_change(jobs):
    plain, found = (jobs.json("nccl_jobs.py", "collectives", environ=REGISTERING, **budget,
                              **DEVICE)["collectives"] for budget in ({}, {"budget": "1GiB"}))
    assert plain["registered_bytes"] > 0
    assert found["registered_bytes"] == 0
    assert found["prints"] == plain["prints"]
