"""What NCCL reads and writes by address is there: same values as without Tidepool."""

import pytest

pytestmark = pytest.mark.torch_floor

OF_DEVICES = ("data_parallel", "between_devices")
OF_RANKS = ("collectives", "collectives_together", "distributed_data_parallel", "hooked",
            "hooked_in_c", "futures", "sharded")
DEVICE = {"memory": "8GiB", "granularity": "64KiB"}
REGISTERING = (("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "1"),)
WAYS = {"evict": (), "chaos": (("TIDEPOOL_CHAOS", "op"),),
        "copy": (("TIDEPOOL_OFFLOAD", "host:1GiB"),)}


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
    assert found["races"] == [] or plain["races"] != []
    assert found["misuses"] == []


@pytest.mark.parametrize("case", OF_DEVICES + OF_RANKS)
def test_tensors_had_left(jobs, case):
    assert run(jobs, case, "evict")["evicted"] > 0


def test_no_memory_is_registered_whose_pages_may_change(jobs):
    plain, found = (jobs.json("nccl_jobs.py", "collectives", environ=REGISTERING, **budget,
                              **DEVICE)["collectives"] for budget in ({}, {"budget": "1GiB"}))
    assert plain["registered_bytes"] > 0
    assert found["registered_bytes"] == 0
    assert found["prints"] == plain["prints"]
