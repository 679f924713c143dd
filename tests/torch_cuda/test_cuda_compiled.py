"""Compiled networks on the CUDA path: forward graphs are run again as wholes, with the same bits.

The stand-in device runs no kernel of Triton's: what the compiler generates is launched as its
launcher does it, and writes hashes of what its text loads (tests/support/triton_kernels.py).
"""

import pytest

# By the job, why its forward graphs are kept; "" where they are recorded.
KEPT = {"block": "", "normed": "", "sliced": "", "convolved": "",
        "transposed": "additions in any order", "attending": "", "interrupted": "",
        "interrupted to draw": ""}
DEVICE = {"memory": "8GiB"}
pytestmark = pytest.mark.torch_floor

pytest.importorskip("triton")


@pytest.mark.parametrize("job", KEPT)
def test_compiled_blocks_come_back_with_the_same_bits(jobs, job):
    plain = jobs.json("compiled_jobs.py", *KEPT, **DEVICE)
    ours = jobs.json("compiled_jobs.py", *KEPT, budget="1GiB",
                     environ=(("TIDEPOOL_CHAOS", "op"),), **DEVICE)
    assert ours[job]["steps"] == plain[job]["steps"]
    assert plain["untreated"] == ours["untreated"] == []
    assert set(ours[job]["kept"]) == {"backward", KEPT[job]} - {""}
    # Replays launch kernels, too.
    assert (ours[job]["launched"] > 2 * plain[job]["launched"]) == (KEPT[job] == "")
