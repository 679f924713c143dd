"""Training steps ask the same of the allocator, and take no more from the device.

Compared with PyTorch's allocator with expandable segments, which wastes least. No byte of the
device is touched, so that no network's way depends on garbage.
"""

import pytest
from selection import FULL

pytestmark = pytest.mark.torch_floor

CASES = ("mlp", "resnet50", "unet", "gpt", "bert", "lstm", "checkpoint", "graph", "side_stream",
         "two_devices")
DEVICE = {"devices": 2, "memory": "8GiB", "touch": False}
NUMBER_BYTES, BLOCK_BYTES = 64, 512
EXPANDABLE = (("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),)


@pytest.fixture(params=("none", "needed-cost") if FULL else ("needed-cost",))
def ours(jobs, request) -> dict:
    policy = ("TIDEPOOL_POLICY", request.param)
    return jobs.json("training_jobs.py", budget="4GiB", environ=(*EXPANDABLE, policy), **DEVICE)


@pytest.mark.parametrize("case", CASES)
def test_no_more_memory_than_expandable_segments(jobs, ours, case, request):
    native = jobs.json("training_jobs.py", environ=EXPANDABLE, **DEVICE)[case]
    mine = ours[case]
    assert native["allocation.allocated"] > 50
    for figure in ("requested_bytes.allocated", "allocation.allocated"):
        assert mine[figure] == native[figure], figure
    # Numbers that died may be kept for what was computed from them.
    assert 0 <= mine["requested_bytes.peak"] - native["requested_bytes.peak"] <= 16 * NUMBER_BYTES
    assert mine["allocated_bytes.peak"] <= native["allocated_bytes.peak"] + 16 * BLOCK_BYTES
    # Memory that may have to be evicted is laid out for that, which takes some pages more.
    spared = 1.02 if "needed-cost" in request.node.name else 1
    assert mine["reserved_bytes.peak"] <= native["reserved_bytes.peak"] * spared


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_left_over(ours, case):
    assert ours[case]["left_allocated"] == 0
    assert ours[case]["left_reserved"] == 0
    assert ours[case]["left_used"] == 0


def test_no_memory_is_used_again_too_early(jobs):
    watched = jobs.json("training_jobs.py", "--watch", "mlp", "gpt", "side_stream", "two_devices",
                        budget="4GiB", late=3, **DEVICE)
    assert watched["races"] == []
    assert watched["misuses"] == []
