"""The benchmark of policies: its points, that it goes on where it stopped, its tables and plots."""

import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from limits_support import ROOT, TIMEOUT_SECONDS

sys.path.insert(0, str(ROOT / "bench"))
import policy_bench
import policy_summary

BYTES = 1 << 18  # of each storage: some pages


def write_trace(path: Path, layers: int) -> Path:
    """Write a trace of `layers` operators forward, and as many that read their results backward."""
    lines = [{"tidepool_trace": 1, "name": path.stem, "device": "cpu"}, {"root": 0, "bytes": BYTES}]
    lines += [{"op": "f", "ns": 1000, "in": [k], "out": [[k + 1, BYTES]]} for k in range(layers)]
    for k in range(layers, 0, -1):
        lines += [{"op": "b", "ns": 1000, "in": [k]}, {"release": k}]
    lines.append({"end": len(lines) - 1})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def bench(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(ROOT / "bench" / "policy_bench.py"), *arguments],
                          text=True, capture_output=True, timeout=TIMEOUT_SECONDS)


def test_points_are_kept_and_not_worked_out_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    traces = [str(write_trace(tmp_path / f"net{k}.jsonl", 20 + 10 * k)) for k in range(2)]
    settings = ["--ratios", "0.5,0.7", "--policies", "needed-cost,coop",
                "--memories", "exact,pages",
                "--iterations", "1,2", "--out", str(out)]
    done = bench(*traces[:1], *settings)
    assert done.returncode == 0, done.stderr
    points = out / "points.jsonl"
    first = points.read_text()
    assert first.count("\n") == 2 * 2 * 2 * 2
    lines = first.splitlines()
    points.write_text("\n".join([*lines[:-1], lines[-1][:50]]))  # broken off while it wrote
    done = bench(*traces, *settings)
    assert done.returncode == 0, done.stderr
    kept = [json.loads(line) for line in points.read_text().splitlines()]
    assert len(kept) == 2 * 16
    assert [json.dumps(entry) for entry in kept[:15]] == lines[:15]
    assert (out / "points.csv").read_text().count("\n") == 1 + 32
    assert "## pages, iteration 2: 4 points" in (out / "summary.md").read_text()
    for memory in ("exact", "pages"):
        plot = ElementTree.parse(out / f"{memory}-1.svg").getroot()
        assert len(plot.findall("{http://www.w3.org/2000/svg}polyline")) == 2


def test_bad_input_is_refused(tmp_path: Path) -> None:
    done = bench("no/such.jsonl", "--out", str(tmp_path))
    assert done.returncode == 2 and "no/such.jsonl" in done.stderr
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{}\n")
    done = bench(str(broken), "--policies", "needed-cost", "--out", str(tmp_path))
    assert done.returncode == 1 and "no trace of Tidepool" in done.stderr
    assert bench("x", "--ratios", "0.1:0.5").returncode == 2


@pytest.mark.parametrize("text, ratios", [
    ("0.5", [0.5]), ("0.7,0.5", [0.7, 0.5]), ("0.3:0.5:0.1", [0.3, 0.4, 0.5]),
])
def test_ratios(text: str, ratios: list[float]) -> None:
    assert policy_bench.parse_ratios(text) == ratios


def point(policy: str, ratio: float, overhead: float | None) -> dict:
    return {"trace": "t", "policy": policy, "memory": "exact", "ratio": ratio, "iterations": 1,
            "overhead": overhead, "search_ns": 1, "planning_ns": 1, "baseline_ns": 100}


def test_failures_are_capped_and_hopeless_points_left_out() -> None:
    answers = [point("a", 0.5, 1.25), point("a", 0.4, None), point("a", 0.1, None),
               point("b", 0.5, 1.5), point("b", 0.4, 2.0), point("b", 0.1, None)]
    text = policy_summary.summary(answers)
    assert "2 points, 1 that all policies run" in text
    rows = {line.split(" | ")[0].strip("| "): line.split(" | ")[1:] for line in text.splitlines()
            if line.startswith("| ")}
    assert rows["a"][:3] == [f"{math.sqrt(1.25 * 5):.3f}", "1", "1.250"]
    assert rows["b"][:3] == [f"{math.sqrt(1.5 * 2):.3f}", "0", "1.500"]
    assert rows["b"][3].startswith("2.00%")
    assert policy_summary.by_setting([point("a", 0.1, None)]) == {}
