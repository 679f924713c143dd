"""What a job's processes tell its first one, by files."""

import os
import subprocess
import sys

import pytest
from tidepool.job import _processes

DEVICES = {"cpu": {"evictions": 2, "reserved_peak_bytes": 30, "budget_bytes": 50,
                   "root_bytes": {"escaped": 4}, "planned": True}}


@pytest.fixture
def other():
    """A process that lives until the test ends."""
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield started
    started.communicate(b"\n")


def test_the_first_process_names_itself_to_those_that_it_starts(other):
    environ = {}
    assert _processes.join(environ) is None and _processes.join(environ) is None
    assert environ[_processes.FIRST_VARIABLE].startswith(f"{os.getpid()}-")
    environ[_processes.FIRST_VARIABLE] = first = _processes._name(other.pid)
    assert _processes.join(environ) == first
    environ[_processes.FIRST_VARIABLE] = f"{other.pid}-0"  # another process had that number
    assert _processes.join(environ) is None


def test_what_is_told_is_read_once_by_rank(tmp_path, monkeypatch, other):
    this = _processes._name(os.getpid())
    for pid, rank in enumerate(("10", "of gold", "9", "", "../2")):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setattr(os, "getpid", lambda: 1000 + pid)  # noqa: B023
        assert _processes.tell(this, DEVICES, tmp_path)
        monkeypatch.undo()
    assert _processes.tell(_processes._name(other.pid), DEVICES, tmp_path)
    (tmp_path / "told-1-0").mkdir()  # of a process that is no more
    assert [each["rank"] for each in _processes.told(tmp_path)] == ["9", "10", None, None, None]
    assert _processes.told(tmp_path) == []
    assert [each.name for each in tmp_path.iterdir()] == [f"told-{_processes._name(other.pid)}"]


def test_nobody_is_told_who_is_gone(tmp_path):
    assert not _processes.tell(f"{os.getpid()}-0", DEVICES, tmp_path)
    (tmp_path / "file").touch()
    assert not _processes.tell(_processes._name(os.getpid()), DEVICES, tmp_path / "file")


def test_several_processes_are_summed_but_for_peaks():
    more = {"cpu": {"evictions": 3, "reserved_peak_bytes": 40, "budget_bytes": 50,
                    "root_bytes": {"escaped": 1, "layout": 2}}}
    assert _processes.together([DEVICES, more]) == {"cpu": {
        "evictions": 5, "reserved_peak_bytes": 40, "budget_bytes": 50,
        "root_bytes": {"escaped": 5, "layout": 2}}}


def test_of_shares_the_mean_counts_and_of_maxima_the_greatest():
    told = [{"cpu": {"foreseen_steps": steps, "foreseen_time_error": error, "longest_plan": longest,
                     "foreseen_bytes_error_most": error}}
            for steps, error, longest in ((1, 0.5, 5), (3, 0.1, 7), (0, 0.0, 6))]
    found = _processes.together(told)["cpu"]
    assert found.pop("foreseen_time_error") == pytest.approx(0.2)
    assert found == {"foreseen_steps": 4, "longest_plan": 7, "foreseen_bytes_error_most": 0.5}


def test_a_launcher_does_nothing():
    assert _processes.did_something(DEVICES)
    assert not _processes.did_something({"cpu": {"evictions": 0, "reserved_peak_bytes": 0}})
