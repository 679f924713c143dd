"""Ways to put the allocator into a job, and jobs that it has to leave alone."""

import json

import pytest

pytestmark = pytest.mark.torch_floor

ON_CUDA = ("TIDEPOOL_DEVICE", "cuda")
MINE = "backend:tidepool,tidepool_budget:1GiB,max_split_size_mb:64"
LEFT = "4096 67108864\nran max_split_size_mb:64\n"


def test_allocator_settings_in_the_environment(jobs):
    done = jobs.run("small_job.py", environ=(ON_CUDA, ("PYTORCH_CUDA_ALLOC_CONF", MINE)))
    assert done.stdout == LEFT
    assert "attached, budget 1 GiB on each cuda device" in done.stderr


def test_allocator_settings_set_inside_the_script(jobs):
    done = jobs.run("small_job.py", "--set", f"{MINE},tidepool_device:cuda")
    assert done.stdout == LEFT
    assert "attached, budget 1 GiB on each cuda device" in done.stderr


def test_settings_inside_the_script_never_end_a_job_that_was_refused(jobs):
    done = jobs.run("small_job.py", "--set", MINE, environ=(("TIDEPOOL_BUDGET", "x"),))
    assert done.stdout == LEFT
    assert "running without Tidepool: TIDEPOOL_BUDGET 'x'" in done.stderr


def test_the_backend_alone_is_a_budget_of_all_memory(jobs, tmp_path):
    stats = tmp_path / "stats.json"
    done = jobs.run("small_job.py", memory="3GiB", environ=(
        ON_CUDA, ("TIDEPOOL_STATS", str(stats)), ("PYTORCH_CUDA_ALLOC_CONF", "backend:tidepool")))
    assert "attached, budget auto on each cuda device" in done.stderr
    device = json.loads(stats.read_text())["devices"]["cuda:0"]
    assert device["budget_bytes"] == 3 << 30
    assert device["allocated_peak_bytes"] == 4096


def test_a_share_of_the_devices_memory(jobs, tmp_path):
    stats = tmp_path / "stats.json"
    jobs.run("small_job.py", budget="25%", memory="4GiB", environ=(("TIDEPOOL_STATS", str(stats)),))
    assert json.loads(stats.read_text())["devices"]["cuda:0"]["budget_bytes"] == 1 << 30


@pytest.mark.parametrize(("environ", "message"), [
    (("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"), "'cudaMallocAsync', and only its own"),
    (("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"), "asks for no caching allocator"),
])
def test_another_allocator_is_left_alone(jobs, environ, message):
    done = jobs.run("small_job.py", "--idle",
                    environ=(ON_CUDA, ("TIDEPOOL_BUDGET", "1GiB"), environ))
    assert done.returncode == 0
    assert done.stdout.startswith("ran")
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and message in lines[0] and "running without Tidepool" in lines[0]


def test_a_job_ends_with_tensors_alive(jobs):
    done = jobs.run("small_job.py", budget="1GiB")
    assert done.returncode == 0
    assert "cuda:0: peak 2 MiB of 1 GiB" in done.stderr


def test_memory_that_no_allocator_knows_of_is_said(jobs, tmp_path):
    stats = tmp_path / "stats.json"
    done = jobs.run("small_job.py", "--outside", "300", budget="1GiB", memory="2GiB",
                    environ=(("TIDEPOOL_STATS", str(stats)),))
    device = json.loads(stats.read_text())["devices"]["cuda:0"]
    assert device["outside_bytes"] - device["outside_at_start_bytes"] == 300 << 20
    assert "MiB outside" in done.stderr
    done = jobs.run("small_job.py", "--too-much", "1100", budget="1GiB", memory="2GiB")
    assert "are in use outside of any (context, libraries, other processes)" in done.stdout


NATIVE = ("TIDEPOOL_ALLOCATOR", "native")


def test_pytorchs_own_allocator_under_the_budget(jobs):
    device = {"devices": 2, "memory": "8GiB", "touch": False}
    cases = ("mlp", "gpt", "graph", "side_stream", "two_devices")
    plain = jobs.json("training_jobs.py", *cases, **device)
    under = jobs.json("training_jobs.py", *cases, budget="2GiB", environ=(NATIVE,), **device)
    for case in cases:
        for figure in ("requested_bytes.peak", "allocation.allocated", "allocated_bytes.peak",
                       "reserved_bytes.peak"):
            assert under[case][figure] == plain[case][figure], (case, figure)
        assert under[case]["left_used"] == 0


def test_pytorchs_own_allocator_keeps_the_budget(jobs, tmp_path):
    stats = tmp_path / "stats.json"
    done = jobs.run("small_job.py", "--too-much", "80", budget="64MiB", memory="1GiB",
                    environ=(NATIVE, ("TIDEPOOL_STATS", str(stats))))
    assert done.returncode == 0
    assert "CUDA out of memory" in done.stdout
    assert "by PyTorch's own allocator" in done.stderr
    device = json.loads(stats.read_text())["devices"]["cuda:0"]
    assert 0 < device["native_reserved_bytes"] == device["reserved_bytes"] <= 64 << 20


def test_a_job_that_uses_no_device(jobs):
    done = jobs.run("small_job.py", "--idle", budget="1GiB")
    assert done.stdout == "ran None\n"
    assert "no CUDA memory was asked for" in done.stderr
