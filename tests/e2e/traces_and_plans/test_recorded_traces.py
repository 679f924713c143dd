"""Traces of real jobs: the same under ample memory and under chaos, and good to replay."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import harness
import pytest
from tidepool.job import _plugin
from tidepool.settings import _catalog

JOB = harness.HERE / "traces_and_plans/recorded_job.py"
REPLAY = _plugin.LIBRARY_FOLDER / "tidepool-replay"
STEPS = 3


def record(path: Path, *options: str, network="unet", size="budget",
           stats: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidepool", "run", "--device", "cpu", "--trace", str(path),
               *options, *(["--stats", str(stats)] if stats else []), "--"]
    done = harness.run([*command, sys.executable, str(JOB), network, size, str(STEPS)])
    assert done.returncode == 0, done.stderr
    return done


def read(path: Path) -> list[dict]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.splitlines()]


def replay(path: Path, *options: str) -> list[dict]:
    done = subprocess.run([str(REPLAY), str(path), "--json", *options], text=True,
                          capture_output=True, timeout=harness.JOB_SECONDS)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def without_costs(lines: list[dict]) -> list[dict]:
    return [{key: value for key, value in line.items() if key not in ("ns", "name")}
            for line in lines]


@pytest.fixture(scope="module")
def ample(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ample")
    record(folder / "ample.jsonl.gz", stats=folder / "stats.json")
    return folder


def test_chaos_does_not_show_in_a_trace(ample, tmp_path):
    chaos = tmp_path / "chaos.jsonl"
    record(chaos, "--chaos=op", stats=tmp_path / "stats.json")
    assert harness.read_stats(tmp_path / "stats.json")["operators_replayed"] > 100
    expected, found = (without_costs(read(path)) for path in (ample / "ample.jsonl.gz", chaos))
    different = [pair for pair in zip(expected, found, strict=False) if pair[0] != pair[1]]
    assert not different, different[0]
    assert len(expected) == len(found)


def test_what_a_trace_has(ample):
    lines = read(ample / "ample.jsonl.gz")
    calls = [line for line in lines if "op" in line]
    stats = harness.read_stats(ample / "stats.json")
    assert len(calls) == stats["operators_seen"]
    assert sum("step" in line for line in lines) == STEPS
    names = {call["op"] for call in calls}
    assert {"aten::convolution", "aten::convolution_backward", "aten::addcdiv_"} <= names
    assert {call["op"] for call in calls if call.get("draws")} >= {"aten::uniform_"}
    # What an optimizer updates is not made again, and is no result.
    updates = [call for call in calls if call["op"] == "aten::addcdiv_"]
    assert all(call["recordable"] is False and "out" not in call for call in updates)
    assert any(call.get("workspace", 0) > 0 for call in calls)
    # The first step shows what they are, the others what they have been since.
    roles = [line["kind"] for line in lines if "role" in line]
    updated = {number for call in updates for number, _ in call["write"]}
    assert updated == {line["role"] for line in lines if line.get("role") in updated
                       and line["kind"] == "parameter"}
    assert roles.count("optimizer_state") >= 2 * len(updated)
    # The call of one place has the same key in every step.
    keys = []
    for call in calls:
        if call["op"] == "aten::convolution":
            keys.append((call["site"], tuple(size for _, size in call["out"])))
    third = len(keys) // STEPS
    assert keys[:third] == keys[third:2 * third] == keys[2 * third:]
    assert len(set(keys[:third])) == third


def test_the_peak_is_the_jobs(ample):
    """A trace lacks only scalars that operators get by value, and memory that nothing reads."""
    stats = harness.read_stats(ample / "stats.json")
    peak = replay(ample / "ample.jsonl.gz", "--budget-ratio", "1", "--memory", "exact")[0]
    difference = stats["allocated_peak_bytes"] - peak["budget_bytes"]
    assert abs(difference) <= 4096, (stats["allocated_peak_bytes"], peak)


def test_every_policy_replays_it(ample):
    runs = replay(ample / "ample.jsonl.gz", "--policy", ",".join(_catalog.POLICIES),
                  "--budget-ratio", "0.9")
    assert [run["policy"] for run in runs] == list(_catalog.POLICIES)
    half = replay(ample / "ample.jsonl.gz", "--budget-ratio", "0.5", "--iterations", "2",
                  "--memory", "exact")[0]
    assert half["status"] == "ok" and half["evictions"] > 0
    assert 1 < half["overhead"] < 2


def test_some_steps_with_what_is_there_before_them(ample, tmp_path):
    path = tmp_path / "second.jsonl"
    record(path, "--trace-steps", "2")
    lines = read(path)
    whole = read(ample / "ample.jsonl.gz")
    marks = [k for k, line in enumerate(whole) if "step" in line]
    expected = [line["op"] for line in whole[marks[0]:marks[1]] if "op" in line]
    assert [line["op"] for line in lines if "op" in line] == expected
    kinds = {line.get("kind") for line in lines if "root" in line}
    assert {"parameter", "optimizer_state"} <= kinds
    assert sum("step" in line for line in lines) == 1


def test_a_file_that_cannot_be_written_does_not_stop_the_job(tmp_path):
    done = record(tmp_path / "no" / "such" / "folder.jsonl", network="mlp")
    lines = [line for line in done.stderr.splitlines() if "trace" in line]
    assert len(lines) == 1 and "No such file" in lines[0], done.stderr


def test_a_trace_says_where_operators_are_called(ample):
    lines = read(ample / "ample.jsonl.gz")
    places = [line["at"] for line in lines if "at" in line]
    calls = [line for line in lines if "op" in line and line["op"] != "tidepool::cut"]
    assert [line["place"] for line in lines if "at" in line] == list(range(len(places)))
    assert all(call["place"] < len(places) for call in calls)
    forward = [places[call["place"]] for call in calls if call["op"] == "aten::convolution"]
    back = [places[call["place"]] for call in calls if call["op"] == "aten::convolution_backward"]
    third = len(forward) // STEPS
    # Steps do the same at the same places, and backward passes through them in reverse.
    assert forward[:third] == forward[third:2 * third]
    assert back[:third] == [{**place, "backward": True} for place in reversed(forward[:third])]
    assert all(place["module"].startswith("UNet.") for place in forward)
    assert len({place["module"] for place in forward}) == third
    assert all(place["lines"][0].startswith("tests/e2e/traces_and_plans/recorded_job.py:")
               or place["lines"][0].endswith(" <module>") for place in forward)
    assert all("networks" in place["lines"][-1] for place in forward)
    (update,) = {places[call["place"]]["lines"][-1] for call in calls
                 if call["op"] == "aten::addcdiv_"}
    assert update.endswith(" <module>") and "backward" not in update
