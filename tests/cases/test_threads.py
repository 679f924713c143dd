"""Threads do not see each other's replays: see `thread_job.py` and `free_threads_job.py`.

TIDEPOOL_FULL=1 takes more seeds, every kind of chaos, and threads at once.
"""

import json
import sys
from pathlib import Path

import pytest
from harness import attached, run
from selection import FULL

HERE = Path(__file__).parent
ACTIONS = 60 if FULL else 16  # of each thread
CHAOS = ("op", "alloc", "random:1", "bounded:1") if FULL else ("random:1",)
# By whether the job's kernels wait for other threads, as they do with odd seeds.
MODES = {True: CHAOS, False: (*(CHAOS if FULL else ()), "ample", "budget=0.7")}
HANDLE = {"TIDEPOOL_PAGE": "64KiB", "TIDEPOOL_QUIET": "1"}  # budgets here are a few pages


@pytest.mark.parametrize("seed", range(1, 13) if FULL else [
    pytest.param(1, marks=pytest.mark.torch_floor), 2])
def test_one_after_another(tmp_path, seed):
    out = tmp_path / "out.json"
    done = run([sys.executable, str(HERE / "thread_job.py"), str(out), str(seed), str(ACTIONS),
                "plain", *MODES[seed % 2 == 1]], **HANDLE)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(out.read_text(encoding="utf-8"))
    plain = outcomes.pop("plain")["found"]
    assert sum(" raised " in line for line in plain) <= len(plain) // 10
    for mode, outcome in outcomes.items():
        found, stats = outcome["found"], outcome["stats"]
        different = [pair for pair in zip(plain, found, strict=True) if pair[0] != pair[1]]
        assert different[:1] == [], mode
        assert stats["contents_different"] == {}
        assert mode == "ample" or stats["rematerializations"] > 0


@pytest.mark.skipif(not FULL, reason="takes longer; ./dev test --full runs it")
@pytest.mark.parametrize("chaos", ["op", "random:1", "bounded:1"])
def test_at_once(tmp_path, chaos):
    out, stats = tmp_path / "out.json", tmp_path / "stats.json"
    done = run([*attached("4GiB", f"--chaos={chaos}", stats=stats), sys.executable,
                str(HERE / "free_threads_job.py"), str(out), "1", "--steps", "300"], **HANDLE)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(out.read_text(encoding="utf-8"))
    assert outcome["wrong"] == {}
    assert outcome["steps"] == [300] * 4
