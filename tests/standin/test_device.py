"""Stock PyTorch, with its own allocator, on the stand-in CUDA device. Needs `./dev build`."""

import functools
import json
import signal
from pathlib import Path

import pytest
import standin

JOBS = Path(__file__).with_name("device_jobs.py")
MIB = 1 << 20
GIB = 1 << 30
EXPANDABLE = (("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),)


@functools.cache
def facts(*names: str, environ: tuple[tuple[str, str], ...] = (), **knobs: standin.Knob) -> dict:
    """Return what jobs said, run once in a process of their own."""
    done = standin.run([JOBS, *names], dict(environ), **knobs)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["misuses"] == []
    return said


def trained() -> dict:
    """Return the facts of the jobs that run together, with late events and the race checker."""
    return facts("--watch", "mlp", "conv", "checkpointed", "graph", "pool", "streams",
                 "two_devices", devices=2, memory="4GiB,2GiB", late=3)


def test_a_perceptron_trains_and_gives_its_memory_back():
    said = trained()["mlp"]
    assert said["launches"] > 30
    assert said["multiplies"]
    assert said["used"] == said["reserved"] >= said["allocated"] > 0
    assert said["used_after"] == said["allocated_after"] == 0


def test_a_convolutional_net_trains_with_mixed_precision_and_fused_adam():
    assert trained()["conv"] == {"convolves": True, "fused": True}


def test_checkpoints_lower_the_peak():
    said = trained()["checkpointed"]
    assert 0 < said["checkpointed"] < 0.75 * said["plain"]


def test_a_step_is_captured_and_replayed():
    said = trained()["graph"]
    assert said["captured"] > 20
    assert said["graphs"] == 1
    assert said["replays"] == 3
    assert said["launched_by_replay"] == 0
    assert said["replays_after"] == 5  # forward and backward of a graphed callable


def test_a_memory_pool_has_segments_of_its_own():
    assert trained()["pool"] == {"own": True, "segments": 1}


def test_two_devices_have_their_own_memory_and_copy_between_them():
    said = trained()["two_devices"]
    assert said["count"] == 2
    assert said["peer"]
    assert said["equal"]
    assert said["total"] == [4 * GIB, 2 * GIB]
    assert said["used"] > 0


def test_the_native_allocator_has_no_race():
    assert trained()["races"] == []
    assert trained()["streams"]["queries"] > 60  # late events were asked about again
    assert trained()["streams"]["ranges"] > 0


def test_a_forgotten_record_stream_is_a_race():
    said = facts("--watch", "forgotten_stream")
    assert said["forgotten_stream"]["same"]
    assert len(said["races"]) == 1
    assert said["races"][0].startswith("reuse: ")
    assert said["forgotten_stream"]["address"] in said["races"][0]


def test_a_race_can_be_fatal():
    done = standin.run([JOBS, "--watch", "forgotten_stream"], fatal=True)
    assert done.returncode == -signal.SIGABRT
    assert "fake_cuda: race in " in done.stderr


def segments() -> dict:
    """Return the facts of jobs with the usual segments on a small device."""
    return facts("out_of_memory", memory="1GiB")


def expandable() -> dict:
    """Return the facts of jobs with expandable segments on a small device."""
    return facts("expandable", "out_of_memory", "wall", environ=EXPANDABLE, memory="1GiB")


@pytest.mark.parametrize("jobs", [segments, expandable])
def test_out_of_memory_is_raised_or_retried(jobs):
    said = jobs()["out_of_memory"]
    assert said["message"].startswith("CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert "1024.00 MiB" in said["message"]
    assert said["ooms"] == 1
    assert said["retries"] >= 1
    assert said["got"]
    assert said["failed"] == 1
    assert said["retries_after"] == said["retries"] + 1


def test_expandable_segments_map_and_unmap():
    said = expandable()["expandable"]
    assert said["mapped"] >= 4
    assert said["allocations"] == 0
    assert said["expandable"]
    assert said["mappings"] == said["used"] == 0


def test_the_wall_of_mappings_stops_expandable_segments():
    said = expandable()["wall"]
    assert said["kept"] == said["mappings"] == 7
    assert "out of memory" in said["message"]


def test_80_gib_cost_less_than_one_of_host_memory():
    said = facts("large", memory="80GiB", touch=False)["large"]
    assert said["used"] > 76 * GIB
    assert said["host_peak"] < GIB
    assert said["zeros"]
    assert said["launches"] > 30


def test_knobs_turn_while_the_device_is_in_use():
    said = facts("knobs", "workspace")["knobs"]
    assert said["outcomes"] == ["copied", True, "copied"]
    assert said["asked"] == [False, False, True]
    assert said["milliseconds"] == pytest.approx(2)
    assert said["unknown"] == "the stand-in device knows no 'maps'"


def test_workspaces_have_the_size_that_is_set():
    assert 64 * MIB <= facts("knobs", "workspace")["workspace"]["more"] < 65 * MIB


@pytest.mark.parametrize("environ", [(), EXPANDABLE], ids=["segments", "expandable"])
def test_processes_share_memory(environ):
    said = facts("processes", environ=environ)["processes"]
    assert said == {"read": 45.0, "written": [7.0] * 10}


def test_a_job_ends_cleanly_with_live_tensors():
    assert facts("leave")["leave"]["allocated"] > 0


def test_what_is_not_there_aborts_by_its_name():
    done = standin.run([JOBS, "unfaked"])
    assert done.returncode == -signal.SIGABRT
    assert "fake_cuda: cufft" in done.stderr
    assert "is not in the stand-in device" in done.stderr


def test_a_wrong_setting_is_named():
    done = standin.run([JOBS, "mlp"], memroy="1GiB")
    assert done.returncode == 2
    assert "FAKE_CUDA_MEMROY is no setting of the stand-in device" in done.stderr
