"""Ranks in several processes find each other, and compute as without Tidepool."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import standin

pytestmark = pytest.mark.torch_floor

CHECKED = ("collectives", "reductions", "functional_collectives", "between_two", "groups")
TRAINED = ("replicated", "sharded", "split_tensors")
ALSO_TRAINED = ("hooked", "sharded_and_kept", "sharded_short", "sharded_and_replicated")
LARGE = tuple(f"large_{case}" for case in TRAINED)
MEANWHILE = ("one_comes_later", "one_computes_meanwhile")
SMALL = (*CHECKED, *TRAINED, *ALSO_TRAINED, *MEANWHILE)
DEVICE = {"memory": "1GiB", "granularity": "64KiB"}
OLDER = ("TORCH_DIST_USE_NCCL2", "0")  # PyTorch has two implementations from 2.15 on
SMALL_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":16:8")
NUMBERED = ("NUMBERED", "1")
COPY = ("TIDEPOOL_OFFLOAD", "host:1GiB")
CHAOS = ("TIDEPOOL_CHAOS", "op")
# Chaos waits for the device, and so for what other ranks have yet to begin.
WAYS = {"plain": (None, (), SMALL + LARGE),
        "chaos": ("1GiB", (CHAOS,), CHECKED + TRAINED),
        "older": ("1GiB", (OLDER, COPY), SMALL),
        "numbered": ("1GiB", (COPY, NUMBERED), SMALL),
        "copy": ("1GiB", (COPY,), MEANWHILE),  # the job's streams wait for what it waits for alone
        "tight": ("12MiB", (COPY,), LARGE)}  # alone they take 15 to 29 MiB


def start(jobs, tmp_path_factory, *names, ranks=2, budget=None, environ=()):
    """Run cases on several ranks to their end."""
    meeting = tmp_path_factory.mktemp("ranks") / "meeting"
    return jobs.run("nccl_rank_jobs.py", str(meeting), *names, budget=budget,
                    environ=(("RANKS", str(ranks)), SMALL_WORKSPACE, *environ),
                    devices=ranks if NUMBERED in environ else 1, **DEVICE)


def said(done, ranks=2):
    """Return what each rank has printed, in their order."""
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-4000:]}"
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == ranks
    return sorted(found, key=lambda each: each["rank"])


@pytest.fixture(scope="module")
def ran(jobs, tmp_path_factory):
    """What the ranks say, by way."""
    made = {}

    def run(way):
        if way not in made:
            budget, environ, names = WAYS[way]
            made[way] = said(start(jobs, tmp_path_factory, *names, budget=budget,
                                   environ=environ))
        return made[way]

    return run


def check(found, case):
    """Each rank has what the host has computed, in order."""
    for each in found:
        assert each[case].get("wrong", []) == []
        assert each[case]["races"] == each["misuses"] == []


@pytest.mark.parametrize("case", WAYS["plain"][2])
def test_ranks_find_each_other(ran, case):
    found = ran("plain")
    check(found, case)
    if case in ("replicated", "hooked"):
        assert found[0][case]["parameters"] == found[1][case]["parameters"]
    if case in MEANWHILE:
        assert not found[0][case]["early"]


@pytest.mark.parametrize(("way", "case"), [
    (way, case) for way in WAYS if way != "plain" for case in WAYS[way][2]])
def test_ranks_compute_as_without_tidepool(ran, way, case):
    plain, found = ran("plain"), ran(way)
    check(found, case)
    assert [each[case]["prints"] for each in found] == [each[case]["prints"] for each in plain]


@pytest.mark.parametrize("case", LARGE)
def test_the_tight_budget_is_less_than_they_take(ran, case):
    for each in ran("plain"):
        assert each[case]["peak"] > 14 << 20


@pytest.mark.long
def test_four_ranks_with_communicators_that_are_split(jobs, tmp_path_factory):
    names = (*CHECKED, "sharded_and_replicated")
    found = said(start(jobs, tmp_path_factory, *names, ranks=4, environ=(("EAGER", "1"),)), 4)
    for case in names:
        check(found, case)


def test_torchrun_starts_a_rank_for_each_device(tmp_path):
    """As users start such jobs: each rank is told its number, and takes the device with it."""
    job = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
           str(Path(__file__).with_name("torchrun_job.py"))]
    run = [sys.executable, "-m", "tidepool", "run", "--device", "cuda", "--budget", "10MiB",
           "--stats", str(tmp_path / "stats.json"), "--"]
    environ = {**standin.environment(devices=2, **DEVICE), "OMP_NUM_THREADS": "1",
               **dict([SMALL_WORKSPACE])}
    plain, ours = (subprocess.run(command, env=environ, text=True, capture_output=True, timeout=300)
                   for command in (job, [*run, *job]))
    for done in (plain, ours):
        assert done.returncode == 0, done.stderr[-4000:]
    assert sorted(ours.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert len(plain.stdout.splitlines()) == 2
    assert "tidepool: 2 processes, the highest peak and sums: cuda:0: peak" in ours.stderr
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats["job_devices"].keys() == {"cuda:0", "cuda:1"}
    for device in stats["job_devices"].values():
        assert device["evictions"] > 0
        assert device["reserved_peak_bytes"] <= 10 << 20


def test_a_rank_that_ends_ends_the_job(jobs, tmp_path_factory):
    """The others fail as they wait for it."""
    done = start(jobs, tmp_path_factory, "killed")
    assert done.returncode != 0
    assert done.stdout == ""
