"""What `tidepool top` works out of jobs' files, and prints."""

import json
import os

import pytest
from tidepool.doctor import _top
from tidepool.job import _live

GIB = 2**30
VALUES = {**dict.fromkeys(_live.KEYS, 0), "budget_bytes": 8 * GIB, "limit_bytes": 8 * GIB,
          "reserved_bytes": 7 * GIB, "reserved_peak_bytes": 8 * GIB, "step_plans": 1}


def content(**changes):
    """Return a job's file: between its samples two seconds passed."""
    later = {**VALUES, "evictions": 30, "operators_replayed": 50, "replay_ns": 10**8,
             "search_ns": 2 * 10**7, "bookkeeping_ns": 8 * 10**7}
    return {"pid": 42, "rank": None, "command": ["python", "train.py"],
            "samples": [{"at": 100.0, "devices": {"cuda:0": VALUES}},
                        {"at": 102.0, "devices": {"cuda:0": later}}], **changes}


def test_rates_are_those_between_the_samples():
    (found,) = _top.measurements(content(), 102.5)
    assert (found["evictions_per_second"], found["replays_per_second"]) == (15, 25)
    assert found["share_lost"] == pytest.approx(0.1)
    assert (found["silent_seconds"], found["reserved_bytes"]) == (0.5, 7 * GIB)
    only = content(samples=content()["samples"][1:])
    assert _top.measurements(only, 102.0)[0]["evictions_per_second"] == 0


def test_a_device_that_was_not_there_before_began_with_nothing():
    samples = content()["samples"]
    samples[0]["devices"] = {}
    assert _top.measurements(content(samples=samples), 102.0)[0]["evictions_per_second"] == 15


def test_the_table_has_a_line_for_each_device():
    text = _top.table(_top.measurements(content(), 102.0))
    head, line = text.splitlines()
    assert head.split() == ["pid", "device", "budget", "held", "peak", "evictions/s", "replays/s",
                            "lost", "plans", "command"]
    assert line.split("  ")[-1] == "python train.py" and " 10.0 % " in line
    silent = content(rank="3", command=["python", "x" * 100])
    head, line = _top.table(_top.measurements(silent, 112.0)).splitlines()
    assert head.split()[1] == "rank" and line.split()[1] == "3"
    assert line.endswith("x (silent for 10 s)") and len(line) < 160


def test_jobs_are_found_by_their_number(tmp_path):
    _live.LiveFile(lambda: {"cpu": VALUES}, tmp_path).write()
    assert [each["pid"] for each in _top.look(None, tmp_path)] == [os.getpid()]
    assert len(_top.look(os.getpid(), tmp_path)) == 1 and _top.look(1, tmp_path) == []


def test_scripts_are_told_where_there_is_no_job(installation):
    done = installation.tidepool("top", "--once", "999999999", check=1)
    assert done.stdout == "" and "process 999999999 is no running job" in done.stderr
    done = installation.tidepool("top", "--json", "999999999", check=1)
    assert json.loads(done.stdout) == []
