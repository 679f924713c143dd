"""The command tidepool-replay: the program as a user starts it, and what it says of bad input."""

import gzip
import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from installation import SOURCES

START = ("import sys; sys.path.insert(0, {!r}); from tidepool.probe._replay import main; "
         "sys.exit(main())")

DTR_LOG = """\
{"ANNOTATION":"START","INSTRUCTION":"ANNOTATE"}
{"INSTRUCTION":"CONSTANT","NAME":"x1"}
{"INSTRUCTION":"MEMORY","MEMORY":"100","NAME":"x1"}
{"ARGS":["x1"],"INSTRUCTION":"CALL","NAME":"f","RESULT":["x2"],"TIME":"50"}
{"INSTRUCTION":"MEMORY","MEMORY":"40","NAME":"x2"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"x2"}
"""


def replay(*arguments: str, package: Path = SOURCES, cwd: Path | None = None,
           status: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([sys.executable, "-c", START.format(str(package.parent)), *arguments],
                          text=True, capture_output=True, timeout=60, cwd=cwd)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def chain(layers: int) -> str:
    """Return a trace of operators that each read the one before, and then back again."""
    lines = [{"tidepool_trace": 1, "name": "chain", "device": "cpu"}, {"root": 0, "bytes": 4096}]
    for k in range(layers):
        lines.append({"op": "f", "ns": 1000, "in": [k], "out": [[k + 1, 4096]]})
    for k in range(layers, 0, -1):
        lines += [{"op": "b", "ns": 1000, "in": [k]}, {"release": k}]
    lines.append({"end": len(lines) - 1})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "chain.jsonl.gz"
    path.write_bytes(gzip.compress(chain(20).encode()))
    return path


def test_a_point_is_one_json_object(trace: Path) -> None:
    done = replay(str(trace), "--budget-ratio", "0.5", "--memory", "exact", "--json")
    point = json.loads(done.stdout)
    assert {"trace", "policy", "memory", "ratio", "iteration", "overhead", "status",
            "peak_bytes"} <= set(point)
    assert point["trace"] == "chain" and point["policy"] == "needed-cost" and point["ratio"] == 0.5
    assert point["status"] == "ok" and 1 < point["overhead"] < 3
    assert point["peak_bytes"] <= 21 * 4096 // 2
    done = replay(str(trace), "--budget", "5000", "--memory", "exact", "--json")
    failed = json.loads(done.stdout)
    assert failed["overhead"] is None and failed["status"] == "out_of_memory"


def test_a_grid_writes_a_table_and_a_plot(trace: Path, tmp_path: Path) -> None:
    done = replay(str(trace), "--grid", "0.3:0.9:0.2", "--policy", "needed-cost,coop", "--memory",
                  "exact", "--jobs", "2", cwd=tmp_path)
    assert done.stdout.count("needed-cost ") >= 4 and "\r" not in done.stderr
    rows = (tmp_path / "chain-exact.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * 4
    plot = ElementTree.parse(tmp_path / "chain-exact.svg").getroot()
    assert len(plot.findall("{http://www.w3.org/2000/svg}path")) == 2


def test_logs_of_dtr(tmp_path: Path) -> None:
    log = tmp_path / "net.log"
    log.write_text(DTR_LOG)
    done = replay(str(log), "--format", "dtr", "--budget-ratio", "1", "--memory", "exact", "--json")
    assert json.loads(done.stdout)["overhead"] == 1


@pytest.mark.parametrize("damage, reason", [
    (lambda text: text[:-20], "cut short"),
    (lambda text: text.replace('"tidepool_trace": 1', '"tidepool_trace": 9'),
     ":1: unknown version 9"),
    (lambda text: text.replace('"in": [3]', '"in": [33]', 1), ":6: unknown storage 33"),
])
def test_a_broken_trace_is_refused_with_its_place(tmp_path: Path, damage, reason: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(damage(chain(5)))
    done = replay(str(path), "--budget-ratio", "0.5", status=1)
    assert done.stdout == ""
    assert done.stderr.startswith(f"tidepool-replay: {path}:") and reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_wrong_command_line_is_refused() -> None:
    done = replay("x.jsonl", "--budget-ratio", "much", status=2)
    assert "--budget-ratio: 'much'" in done.stderr and "--help" in done.stderr
    assert "usage: tidepool-replay" in replay("--help").stdout
    done = replay("no/such.jsonl", "--budget", "1MiB", status=1)
    assert "no/such.jsonl" in done.stderr


def test_baselines_are_listed_apart() -> None:
    own, _, baselines = replay("--list-policies").stdout.partition("\nbaselines, for comparison:\n")
    assert own.split() == ["planned", "needed-cost", "next-use"]
    assert {"coop", "dtr", "lru"} <= set(baselines.split())


def test_more_than_jobs_know_is_said_to_be_an_oracles(trace: Path) -> None:
    settings = [str(trace), "--budget", "5000", "--memory", "exact", "--json", "--iterations", "3"]
    failed = json.loads(replay(*settings).stdout)
    assert failed["iterations"] == 3 and failed["iteration"] == 1 and "oracle" not in failed
    known = json.loads(replay(*settings, "--oracle").stdout)
    assert known["iteration"] == 3 and known["oracle"] is True


def test_a_package_without_the_program_says_so(tmp_path: Path) -> None:
    package = tmp_path / "tidepool"
    shutil.copytree(SOURCES, package, ignore=shutil.ignore_patterns("lib", "__pycache__"))
    done = replay("--help", package=package, status=1)
    assert "cannot start" in done.stderr and "tidepool-replay" in done.stderr
