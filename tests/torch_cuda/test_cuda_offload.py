"""What CUDA tensors hold leaves for the host's memory and comes back: same values, no race.

Budgets are shares of what a job has before its first step: parameters and buffers, without
gradients and the optimizer's state.
"""

import gzip
import json
import os
import tempfile
from pathlib import Path

import pytest
import torch
from selection import FULL

pytestmark = pytest.mark.torch_floor

ROOT = Path(__file__).resolve().parents[2]
JOBS = ("gpt", "unet", "lstm", "gpt_amp", "cnn", "bert")
if not FULL:
    JOBS = JOBS[:1] if torch.__version__.startswith("2.11.") else JOBS[:4]
STEPS = ("--steps", "2")
ENVIRON = (("CUBLAS_WORKSPACE_CONFIG", ":16:8"),)
DEVICE = {"memory": "8GiB", "granularity": "64KiB"}
OFFLOAD = ("TIDEPOOL_OFFLOAD", "host:1GiB")


def run(jobs, *arguments: str, budget=None, environ=(), **knobs) -> dict:
    return jobs.json("value_jobs.py", *STEPS, *arguments, budget=budget,
                     environ=(*ENVIRON, *environ), **DEVICE, **knobs)


@pytest.mark.parametrize("job", JOBS)
def test_fixed_bytes_above_the_budget(jobs, summary, job):
    expected = run(jobs, *JOBS)[job]
    found = run(jobs, "--watch", job, budget=str(expected["fixed"]), environ=(OFFLOAD,))

    assert found[job]["steps"] == expected["steps"]
    assert found["used_peak"] <= expected["fixed"]
    assert found["races"] == found["misuses"] == []
    assert found["tidepool"]["offloads"] > 0


@pytest.mark.parametrize("way", ["moved", "given", "loaded", "copied", "filled"])
def test_more_than_the_budget_may_arrive(jobs, way):
    """No operator on the device has to have used it before it may leave."""
    found = jobs.json("arrival_jobs.py", way, budget="6MiB", environ=(OFFLOAD,), **DEVICE)
    assert found["same"]
    assert found["offloads"] >= 10


def test_copies_come_back_before_they_are_read(jobs):
    """From the third step on the steps repeat themselves."""
    job = JOBS[0]
    expected = run(jobs, "--steps", "5", job)[job]
    found = run(jobs, "--steps", "5", "--watch", job, budget=str(expected["fixed"]),
                environ=(OFFLOAD,))

    assert found[job]["steps"] == expected["steps"]
    assert found["races"] == found["misuses"] == []
    assert found["tidepool"]["prefetches"] > 0
    assert found["tidepool"]["prefetch_hits"] > 0


@pytest.fixture
def disk_path():
    """Returns a folder on a disk, which the one for temporary files need not be."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        yield Path(folder)


def test_what_the_host_has_no_room_for_goes_to_a_file(jobs, disk_path):
    """The host's memory has a quarter of what leaves; the rest moves on."""
    job = JOBS[0]
    expected = run(jobs, job)[job]
    host = expected["fixed"] // 4
    chain = f"host:{host},file:{disk_path}:1GiB"
    found = run(jobs, "--watch", job, budget=str(expected["fixed"]),
                environ=(("TIDEPOOL_OFFLOAD", chain),))

    assert found[job]["steps"] == expected["steps"]
    assert found["used_peak"] <= expected["fixed"]
    assert found["races"] == found["misuses"] == []
    assert found["tidepool"]["tier_peak_bytes"] > 2 * host
    assert os.listdir(disk_path) == []


def test_a_folder_in_memory_is_refused_at_the_start(jobs):
    done = jobs.run("value_jobs.py", *STEPS, JOBS[0], budget="1GiB",
                    environ=(("TIDEPOOL_OFFLOAD", "host:1MiB,file:/dev/shm:1GiB"),), **DEVICE)
    assert done.returncode != 0
    assert "tmpfs" in done.stderr


@pytest.mark.parametrize("chaos", ("offload:1", "op", "alloc", "random:2") if FULL
                         else ("offload:1",))
@pytest.mark.parametrize("job", JOBS if FULL else JOBS[:1])
def test_chaos(jobs, job, chaos):
    small = ("--size", "chaos")
    expected = run(jobs, *small, *JOBS)[job]
    found = run(jobs, *small, "--watch", job, budget="256MiB",
                environ=(OFFLOAD, ("TIDEPOOL_CHAOS", chaos)))
    assert found[job]["steps"] == expected["steps"]
    assert found["races"] == found["misuses"] == []
    assert found["tidepool"]["contents_different"] == {}
    assert found["tidepool"]["fetches"] > 100


def test_weights_of_a_recurrent_layer_stay_while_it_runs(jobs):
    """Where it runs on cuDNN, their addresses are compared before any operator is given them."""
    found = jobs.json("recurrent_job.py", budget="256MiB", **DEVICE,
                      environ=(OFFLOAD, ("TIDEPOOL_CHAOS", "offload:1")))
    assert found["misuses"] == []
    assert found["fetched"][0] > 0  # results are small beside the weights
    assert max(found["fetched"]) < 3 * found["parameters"]


@pytest.mark.parametrize("case, whole", (("alike", False), ("types", True), ("strides", True)))
def test_lists_are_cut_where_parts_are_computed_as_the_whole_is(jobs, tmp_path, case, whole):
    """PyTorch computes norms of lists that are not alike in another order, and a part might be."""
    trace = tmp_path / "job.jsonl.gz"
    done = jobs.run("list_jobs.py", case, budget="8MiB", **DEVICE,
                    environ=(OFFLOAD, ("TIDEPOOL_TRACE", str(trace))))
    assert done.returncode == 0, done.stderr
    calls = gzip.decompress(trace.read_bytes()).count(b'"aten::_foreach_norm')
    assert (calls == 1) == whole


@pytest.mark.parametrize("host", ("8MiB", "2MiB"))
def test_page_locked_memory_is_refused(jobs, host):
    """What does not leave is recomputed, or the job is out of memory: nothing is wrong or hangs."""
    expected = run(jobs, JOBS[0])[JOBS[0]]
    done = jobs.run("value_jobs.py", *STEPS, JOBS[0], budget=str(3 * expected["fixed"]),
                    environ=(*ENVIRON, OFFLOAD), **DEVICE, host_memory=host)
    assert done.returncode == 0 or "OutOfMemoryError" in done.stderr
    if done.returncode == 0:
        assert json.loads(done.stdout.splitlines()[-1])[JOBS[0]]["steps"] == expected["steps"]
