"""A running job against the simulation of its trace: the same evictions and replays, one by one."""

import json
import subprocess
import sys
from pathlib import Path

import harness
import pytest
from tidepool.job import _plugin

JOB = harness.HERE / "traces_and_plans/recorded_job.py"
REPLAY = _plugin.LIBRARY_FOLDER / "tidepool-replay"
NETWORK, STEPS, SHARE = "unet", 2, 0.55  # of the peak: parameters are few


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    """Return a trace with blocks; its job's statistics lie beside it."""
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    run(path.parent, "--trace", str(path), TIDEPOOL_TRACE_BLOCKS="1")
    return path


def run(folder: Path, *options: str, **environ: str) -> dict:
    """Run the job; return its statistics."""
    stats = folder / "stats.json"
    done = harness.run([sys.executable, "-m", "tidepool", "run", "--device", "cpu", *options,
                        "--stats", str(stats), "--", sys.executable, str(JOB), NETWORK, "budget",
                        str(STEPS)], **environ)
    assert done.returncode == 0, done.stderr
    return harness.read_stats(stats)


def without_blocks(path: Path) -> list[dict]:
    """Return the lines of a trace that are in every trace of the job."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for name in ("ns", "block", "blocks", "args") if "op" in line or "root" in line else ():
            line.pop(name, None)
        if "out" in line:
            line["out"] = [entry[:2] for entry in line["out"]]
    return [line for line in lines
            if not {"tidepool_trace", "block", "free", "end"} & line.keys()]


@pytest.mark.parametrize("policy", ["planned", "coop"])
def test_evictions_and_replays_are_the_simulators(trace, tmp_path, policy):
    budget = int(SHARE * harness.read_stats(trace.parent / "stats.json")["allocated_peak_bytes"])
    options = ["--budget", str(budget), "--policy", policy]
    job, simulation, again = (tmp_path / name for name in ("job", "simulation", "again.jsonl"))
    stats = run(tmp_path, *options, "--trace", str(again), TIDEPOOL_COSTS=str(trace),
                TIDEPOOL_EVENT_LOG=str(job))
    done = subprocess.run([str(REPLAY), str(trace), *options, "--json", "--log", str(simulation)],
                          text=True, capture_output=True, timeout=harness.JOB_SECONDS)
    assert done.returncode == 0, done.stderr
    lines, expected = (path.read_text().splitlines() for path in (job, simulation))
    different = [pair for pair in zip(lines, expected, strict=False) if pair[0] != pair[1]]
    assert not different, different[0]
    assert len(lines) == len(expected)
    words = [line.split()[1] for line in lines]
    moved = words.count("copy")  # which is an eviction and a restoration
    assert words.count("replay") == stats["operators_replayed"] > 50
    assert words.count("evict") >= stats["evictions"] > 50
    assert words.count("evict") <= stats["evictions"] + moved
    assert without_blocks(again) == without_blocks(trace)


def test_a_job_that_does_something_else_ends(trace, tmp_path):
    """Otherwise its decisions would be compared with those of another job."""
    lines = trace.read_text().splitlines()
    first = next(k for k, line in enumerate(lines) if '"op"' in line)
    lines[first] = lines[first].replace('"aten::', '"other::')
    path = tmp_path / "other.jsonl"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(AssertionError, match=r"call 0 is other::.*, but the job calls aten::"):
        run(tmp_path, "--trace", str(tmp_path / "again.jsonl"), TIDEPOOL_COSTS=str(path))
