"""An observer outside of Tidepool counts committed memory and ends the job at a byte too many.

The observer is a preloaded library, `budget_watch.c`, that knows nothing of Tidepool's bookkeeping.
"""

import json
from pathlib import Path

import pytest
from limits_support import compile_library, run_job, start_attached

MIB = 1 << 20
BUDGET_MIB = 32  # the job needs about 60
STEPS = "3"
CAUGHT = 97  # exit status of the observer


@pytest.fixture(scope="module")
def watch() -> Path:
    return compile_library("budget_watch.c", "-ldl", "-lpthread")


def start_watched(watch: Path, folder: Path, limit: int = BUDGET_MIB * MIB, **environ: str):
    """Run the job with the observer in place; return the finished process."""
    return start_attached(
        f"{BUDGET_MIB}MiB", "watch_job.py", STEPS, stats=folder / "stats.json",
        LD_PRELOAD=str(watch), BUDGET_WATCH_BYTES=str(limit),
        BUDGET_WATCH_REPORT=str(folder / "report.json"), **environ)


def test_committed_bytes_keep_to_the_budget(watch: Path, tmp_path: Path) -> None:
    done = start_watched(watch, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == run_job("watch_job.py", STEPS)
    ours = json.loads((tmp_path / "stats.json").read_text())["devices"]["cpu"]
    seen = json.loads((tmp_path / "report.json").read_text())
    # The job was under pressure, and the observer was awake.
    assert ours["evictions"] > 0
    assert seen["ranges"] == 1
    assert seen["commits"] > 0
    assert seen["moves"] > 0  # pages of evicted blocks served other addresses
    assert seen["samples"] > 0
    assert seen["resident_peak_bytes"] > BUDGET_MIB * MIB // 2
    # It counted for itself what Tidepool reports.
    assert seen["peak_bytes"] == ours["reserved_peak_bytes"] <= BUDGET_MIB * MIB


@pytest.mark.long
def test_the_first_byte_over_a_limit_is_caught(watch: Path, tmp_path: Path) -> None:
    done = start_watched(watch, tmp_path, limit=BUDGET_MIB * MIB - 1)
    assert done.returncode == CAUGHT, done.stderr
    assert f"budget watch: committed: {BUDGET_MIB * MIB} bytes" in done.stderr


@pytest.mark.parametrize(("plant", "message"), [
    ("call:4", "budget watch: committed"),
    ("hidden:4", "budget watch: a page holds memory behind the count"),
])
@pytest.mark.long
def test_an_uncounted_commit_is_caught(watch: Path, tmp_path: Path, plant: str,
                                       message: str) -> None:
    done = start_watched(watch, tmp_path, BUDGET_WATCH_PLANT=plant)
    assert done.returncode == CAUGHT, done.stderr
    assert message in done.stderr
