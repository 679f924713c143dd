"""A job whose parameters, gradients and optimizer state exceed the budget trains, same bits."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import pytest
from environments import clean_environment
from selection import FULL

JOB = harness.HERE / "memory/offload_job.py"
MIB = 2**20
FIXED = 6 * (2 * 4 * 256 * 256) * 4 * 4  # parameters, gradients and Adam's two, about 50 MiB
CAP = 512 * MIB


@pytest.fixture
def disk_path():
    """Returns a folder on a disk, which the one for temporary files need not be."""
    with tempfile.TemporaryDirectory(dir=harness.HERE.parents[1] / "build") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Returns what the job prints without Tidepool."""
    done = harness.run([sys.executable, str(JOB), str(tmp_path_factory.mktemp("plain"))])
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def run_offloaded(folder, budget, *options, variants=()):
    """Run the job with a tier in a folder of its own; return its lines and its statistics."""
    tier, stats = folder / "tier", folder / "stats.json"
    tier.mkdir()
    done = harness.run([*harness.attached(budget, "--offload", f"file:{tier}:{CAP}", *options,
                                          stats=stats),
                        sys.executable, str(JOB), str(folder), *variants])
    assert done.returncode == 0, done.stderr
    assert os.listdir(tier) == []
    return done.stdout.splitlines(), harness.read_stats(stats)


@pytest.mark.long
def test_half_of_the_fixed_bytes(plain, disk_path):
    lines, stats = run_offloaded(disk_path, FIXED // 2)
    assert lines == plain
    assert stats["reserved_peak_bytes"] <= FIXED // 2
    assert 0 < stats["tier_peak_bytes"] <= CAP
    assert stats["fetched_bytes"] > FIXED


@pytest.mark.parametrize("chaos", ["offload:1", "op", "random:2"] if FULL else ["offload:1"])
def test_chaos(plain, disk_path, chaos):
    variants = () if FULL else ("fused", "averaged")
    lines, stats = run_offloaded(disk_path, "4GiB", f"--chaos={chaos}", variants=variants)
    assert lines == [line for line in plain if not variants or line.startswith(
        tuple(f'{{"{name}"' for name in variants))]
    assert stats["contents_different"] == {}
    assert stats["contents_compared"] > 1000
    assert stats["offloads"] > 1000


@pytest.mark.long
def test_whole_jobs_with_checkpoints(disk_path):
    """What is loaded and saved is larger than the budget, and so is what the job begins with."""
    job = [sys.executable, str(harness.HERE / "memory/checkpoint_job.py"), str(disk_path)]
    tier, stats = disk_path / "tier", disk_path / "stats.json"
    tier.mkdir()
    assert harness.run([*job, "write"]).returncode == 0
    plain = harness.run(job)
    assert plain.returncode == 0, plain.stderr
    budget = FIXED // 2
    assert os.path.getsize(disk_path / "whole.pt") > budget
    done = harness.run([*harness.attached(budget, "--offload", f"file:{tier}:{CAP}", stats=stats),
                        *job])
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    assert harness.read_stats(stats)["reserved_peak_bytes"] <= budget
    assert os.listdir(tier) == []


@pytest.mark.parametrize("fault", ["full", "changed",
                                   *(pytest.param(each, marks=pytest.mark.long)
                                     for each in ("truncated", "signals"))])
def test_faults_of_the_file(disk_path, fault):
    """There are the same bits up to an error that says why, and nothing is left on the disk."""
    job = [sys.executable, str(harness.HERE / "memory/offload_fault_job.py"), str(disk_path)]
    plain = harness.run([*job, "none"])
    assert plain.returncode == 0, plain.stderr
    done = harness.run([*harness.attached(FIXED // 2, "--offload", f"file:{disk_path}:{CAP}"),
                        *job, fault])
    assert done.stdout and plain.stdout.startswith(done.stdout)
    assert os.listdir(disk_path) == []
    if fault == "signals":
        assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
        return
    assert done.returncode == 1
    said = {"full": "nothing more is offloaded to", "truncated": "cannot be read back: No data",
            "changed": "cannot be read back: its checksum is wrong"}
    assert said[fault] in done.stderr
    assert ("OutOfMemoryError" if fault == "full" else "RuntimeError") in done.stderr


def test_a_killed_job_leaves_no_file(disk_path):
    command = [*harness.attached(FIXED // 2, "--offload", f"file:{disk_path}:{CAP}"),
               sys.executable, str(harness.HERE / "memory/offload_fault_job.py"), str(disk_path),
               "none"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=clean_environment(**harness.ON_CPU),
                          start_new_session=True) as process:
        assert process.stdout.readline()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert os.listdir(disk_path) == []


def test_without_a_tier_the_same_budget_is_too_small(disk_path):
    done = harness.run([*harness.attached(FIXED // 2), sys.executable, str(JOB), str(disk_path),
                        "loop"])
    assert "OutOfMemoryError" in done.stderr


def test_a_tier_that_is_too_small_is_out_of_memory(disk_path):
    tier = disk_path / "tier"
    tier.mkdir()
    done = harness.run([*harness.attached(FIXED // 2, "--offload", f"file:{tier}:1MiB"),
                        sys.executable, str(JOB), str(disk_path), "loop"])
    assert "OutOfMemoryError" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(("text", "reason"), [
    ("file:/dev/shm:1GiB", "tmpfs"), ("file:/no/such/folder:1GiB", "/no/such/folder"),
    ("host:1GiB", "on cpu expected file:FOLDER:SIZE"), ("disk", "expected host:SIZE"),
    ("file:.:much", "a size such as")])
def test_a_tier_that_cannot_be_had_is_refused(text, reason):
    done = harness.run([*harness.attached("1GiB", "--offload", text), sys.executable, "-c",
                        "import torch; print('ran')"])
    assert done.returncode == 2
    assert reason in done.stderr
    assert "ran" not in done.stdout
