"""The budget `auto`: nothing is evicted before the device is full, and then as under a budget.

Values are the hashes of value kernels; the device is as large as a budget would have to be.
"""

import pytest
from selection import FULL

pytestmark = pytest.mark.torch_floor

JOBS = ("cnn", "gpt_amp", "lstm", "cnn_without_cudnn", "unet", "gpt", "bert")
SHARES = (0.6, 0.5) if FULL else (0.5,)
SEEDS = (1, 2, 3) if FULL else (1,)
# By way to ask for it: the budget of `tidepool run`, or None, and what the environment has.
WAYS = {"auto": ("auto", ()), "100%": ("100%", ()),
        "backend alone": (None, (("TIDEPOOL_DEVICE", "cuda"),
                                 ("PYTORCH_CUDA_ALLOC_CONF", "backend:tidepool")))}
STEPS = ("--steps", "2")
ENVIRON = (("CUBLAS_WORKSPACE_CONFIG", ":16:8"),)
AMPLE = {"memory": "8GiB", "granularity": "64KiB"}
PAGE = 1 << 16
RESERVE = 50  # a part of so many is left to others


def plain(jobs) -> dict:
    return jobs.json("value_jobs.py", *STEPS, *JOBS, environ=ENVIRON, **AMPLE)


def memory_for(found: dict, share: float) -> int:
    """Return the memory of a device on which the job has what a budget of this share allows."""
    wanted = found["fixed"] + share * (found["allocated_peak"] - found["fixed"])
    return int(wanted / (1 - 1 / RESERVE)) // PAGE * PAGE + 2 * PAGE


def with_others(jobs, share: float, way: str, job: str, seed: int) -> dict:
    """Run a job on a device that others use, too: at most so much that this share is left.

    At one call in seven, at random, they begin to use another part of it. The seed decides at which
    calls, counted from the job's start, and how much.
    """
    expected = plain(jobs)[job]
    others = (expected["allocated_peak"] - expected["fixed"]) // PAGE * PAGE
    budget, environ = WAYS[way]
    return jobs.json("value_jobs.py", *STEPS, "--watch", job, budget=budget,
                     environ=(*ENVIRON, *environ), memory=memory_for(expected, share) + others,
                     granularity="64KiB", outside=others, outside_every=7, outside_seed=seed)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("job", JOBS if FULL else JOBS[:2])
def test_a_full_device_is_pressure(jobs, job, share):
    expected = plain(jobs)[job]
    memory = memory_for(expected, share)
    found = jobs.json("value_jobs.py", *STEPS, "--watch", job, budget="auto", environ=ENVIRON,
                      memory=memory, granularity="64KiB")
    assert found[job]["steps"] == expected["steps"]
    ours = found["tidepool"]
    assert ours["evictions"] > 0 and ours["device_refusals"] > 0
    assert ours["limit_bytes"] < ours["budget_bytes"] == memory
    assert found["races"] == found["misuses"] == []


def test_an_ample_device_evicts_nothing(jobs):
    found = jobs.json("value_jobs.py", *STEPS, "--watch", "cnn", budget="auto", environ=ENVIRON,
                      **AMPLE)
    assert found["cnn"]["steps"] == plain(jobs)["cnn"]["steps"]
    assert found["tidepool"]["evictions"] == found["tidepool"]["device_refusals"] == 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("job", JOBS if FULL else JOBS[:2])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("share", SHARES)
def test_others_may_take_memory_and_give_it_back_at_any_moment(jobs, share, way, job, seed):
    expected = plain(jobs)[job]
    found = with_others(jobs, share, way, job, seed)
    assert found[job]["steps"] == expected["steps"]
    assert found["races"] == found["misuses"] == []
    assert found["tidepool"]["device_refusals"] > 0
