"""Compiled blocks are evicted and run again, with the bits of the plain compiled job."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness
import pytest

JOB = Path(__file__).resolve().parent / "compiled_job.py"
CHAOS = ("op", "alloc")


def compiled(cache: Path, *front: str) -> list[str]:
    done = harness.run([*front, sys.executable, str(JOB)], TORCHINDUCTOR_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.split()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder for what is compiled."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, cache):
    """What the job prints, plain and under chaos, and statistics."""
    folder = tmp_path_factory.mktemp("compiled")
    printed = {"plain": compiled(cache)}  # compiles for all

    def under(mode):
        stats = folder / f"{mode}.json"
        printed[mode] = compiled(cache, *harness.attached(
            harness.AMPLE, f"--chaos={mode}", stats=stats))
        return mode, json.loads(stats.read_text())

    with ThreadPoolExecutor() as pool:
        return printed, dict(pool.map(under, CHAOS))


@pytest.mark.parametrize("mode", CHAOS)
def test_bits_are_those_of_the_plain_compiled_job(outcomes, mode):
    printed, stats = outcomes
    assert printed[mode] == printed["plain"]
    device = stats[mode]["devices"]["cpu"]
    assert device["chaos_coverage"]["tidepool::compiled_graph"]["restored"] > 0


def verify(cache: Path, *what: str) -> subprocess.CompletedProcess[str]:
    return harness.run([sys.executable, "-m", "tidepool", "verify", "--device", "cpu", "--budget",
                        harness.AMPLE, "--chaos", "--", sys.executable, str(JOB), *what],
                       TORCHINDUCTOR_CACHE_DIR=str(cache))


@pytest.mark.long
def test_verify_finds_a_sound_job_the_same(outcomes, cache):
    done = verify(cache)
    assert done.returncode == 0 and "same: 3 steps" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_verify_names_graphs_that_make_something_else_in_a_replay(outcomes, cache):
    """No operator's first wrong result is found: nothing is compiled while they are watched."""
    done = verify(cache, "forgetful")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "first difference: step 1 of 3" in done.stdout
    _, noticed, operators = done.stdout.partition("came back otherwise than they were evicted")
    assert noticed and "tidepool::compiled_graph (" in operators, done.stdout


def test_statistics_say_what_stays(outcomes):
    _, stats = outcomes
    for mode in CHAOS:
        assert stats[mode]["compiled"]["kept"] == {"backward": 1}
        assert stats[mode]["compiled"]["graphs"] >= 2


# Layers with running statistics, which their graphs write.
NORMED = """
import json
import torch
import tidepool
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
blocks = [nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256)) for _ in range(4)]
for block in blocks:
    block.compile(dynamic=False)
model, x = nn.Sequential(*blocks), torch.randn(128, 256)
model(x).sum().backward()
loss = model(x).sum()
device = tidepool.stats()["devices"]["cpu"]
print(json.dumps({"roots": device["root_bytes"], "retained": device["retained_bytes"]}))
loss.backward()
"""


def test_results_can_be_evicted_though_the_graph_has_written_statistics(cache):
    done = harness.run([*harness.attached(harness.AMPLE), sys.executable, "-c", NORMED],
                       TORCHINDUCTOR_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout)
    results = 4 * 128 * 256 * 4
    assert said["roots"]["lost_root"] < results / 100, said


def test_what_a_graph_has_reduced_is_there_for_its_kernels(tmp_path, monkeypatch, cache):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    job = [sys.executable, str(JOB.with_name("compiled_collective_job.py"))]
    front = harness.attached(harness.AMPLE, "--chaos=op", f"--offload=file:{tmp_path}:64MiB")
    harness.check_same_output(job, [*front, *job])
