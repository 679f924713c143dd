"""Traces of jobs on the stand-in CUDA device: streams, devices, and no sign of evictions."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest
from tidepool.job import _plugin

CASES = ("side_stream", "two_devices", "mlp")
# No byte of the device is touched, so that no network's way depends on garbage.
DEVICE = {"devices": 2, "memory": "8GiB", "touch": False}
REPLAY = _plugin.LIBRARY_FOLDER / "tidepool-replay"


def record(jobs, path: Path, *cases: str, **settings: str) -> None:
    environ = {"TIDEPOOL_TRACE": str(path),
               **{f"TIDEPOOL_{key.upper()}": value for key, value in settings.items()}}
    done = jobs.run("traced_job.py", *cases, budget="6GiB", environ=tuple(environ.items()),
                    **DEVICE)
    assert done.returncode == 0, done.stderr
    assert "no trace" not in done.stderr


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in gzip.open(path, "rt")]


@pytest.fixture(scope="module")
def ample(jobs, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "job.jsonl.gz"
    record(jobs, path, *CASES)
    return path


def test_each_device_has_a_trace(ample):
    first, second = read(ample), read(ample.with_name("job.1.jsonl.gz"))
    for lines in (first, second):
        assert lines[0]["device"] == "cuda" and lines[0]["alignment"] == 512
        assert lines[0]["copy_bytes_per_ns"] > 0 and lines[0]["map_ns"] > 0
        assert lines[-1] == {"end": len(lines) - 2}
        assert sum(line.get("op") == "aten::addmm" for line in lines) >= 3
    assert len(second) < len(first)


def test_streams_and_what_comes_from_the_host(ample):
    lines = read(ample)
    calls = [line for line in lines if "op" in line]
    assert len({call.get("stream", 0) for call in calls}) == 2
    aside = [call for call in calls if call.get("stream")]
    assert {call["op"] for call in aside} == {"aten::mul.Tensor"}
    roots = {line["root"] for line in lines if "root" in line}
    assert all(call["in"][0] in roots for call in aside)  # what was loaded
    doubled = {call["out"][0][0] for call in aside}
    uses = [line for line in lines if "use" in line]
    assert {use["use"] for use in uses} >= doubled
    assert {use["stream"] for use in uses} == {0}


def test_chaos_does_not_show(jobs, ample, tmp_path):
    path = tmp_path / "job.jsonl.gz"
    record(jobs, path, *CASES, chaos="op")
    for name in ("job.jsonl.gz", "job.1.jsonl.gz"):
        expected, found = ([{key: value for key, value in line.items() if key != "ns"}
                            for line in read(folder / name)]
                           for folder in (ample.parent, tmp_path))
        different = [pair for pair in zip(expected, found, strict=False) if pair[0] != pair[1]]
        assert not different, different[0]
        assert len(expected) == len(found)


def test_it_can_be_replayed(ample):
    # Operators of the stand-in device take next to nothing: pages at their price would be all.
    done = subprocess.run([str(REPLAY), str(ample), "--json", "--budget-ratio", "0.8",
                           "--map-ns", "0"], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "ok"


def test_pages_that_are_mapped_for_a_result_are_no_part_of_its_operators_cost(jobs, tmp_path):
    path = tmp_path / "job.jsonl.gz"
    done = jobs.run("traced_job.py", "mlp", budget="6GiB", price="map:50000000",
                    environ=(("TIDEPOOL_TRACE", str(path)),), **DEVICE)
    assert done.returncode == 0, done.stderr
    costs = [line["ns"] for line in read(path) if "op" in line]
    assert costs and max(costs) < 50_000_000
