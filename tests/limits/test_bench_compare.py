"""bench/compare.py: runs in turns, and says faster or slower only where ranges do not overlap."""

import importlib.util
import json
import stat
import sys
from pathlib import Path

import pytest
from limits_support import ROOT


@pytest.fixture(scope="module")
def compare():
    spec = importlib.util.spec_from_file_location("bench_compare", ROOT / "bench" / "compare.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


def program(path: Path, log: Path, times: dict[str, tuple[float, str]]) -> Path:
    """Write a benchmark program that always measures the same, and logs that it ran."""
    runs = [{"name": name, "run_type": "iteration", "cpu_time": time, "time_unit": unit}
            for name, (time, unit) in times.items()]
    runs.append({"name": "broken", "run_type": "iteration", "cpu_time": 0, "time_unit": "ns",
                 "error_occurred": True})
    path.write_text(f"""#!{sys.executable}
import sys
options = dict(each.split("=", 1) for each in sys.argv[1:])
open({str(log)!r}, "a").write({path.name!r} + options["--benchmark_filter"] + "\\n")
open(options["--benchmark_out"], "w").write({json.dumps({"benchmarks": runs})!r})
""")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_programs_run_in_turns(compare, tmp_path):
    log = tmp_path / "log"
    base = program(tmp_path / "base", log, {"a": (100, "ns"), "gone": (1, "ns")})
    ours = program(tmp_path / "ours", log, {"a": (0.05, "us"), "new": (1, "ns")})
    made = compare.compare(base, ours, 4, ["--benchmark_filter=x"])
    assert log.read_text().split() == ["basex", "oursx", "oursx", "basex"] * 2
    assert [(row.name, row.base, row.ours, row.ratio, row.verdict) for row in made] == [
        ("a", 100.0, 50.0, 0.5, "faster")]
    text = compare.table(made, "abc", "here")
    assert "0.50  faster" in text and "abc" in text


@pytest.mark.parametrize(("base", "ours", "verdict"), [
    ([10, 11, 12], [13, 14, 15], "slower"),
    ([13, 14, 15], [10, 11, 12], "faster"),
    ([10, 11, 14], [13, 14, 15], ""),
    ([10, 10, 10], [10, 10, 10], ""),
])
def test_a_verdict_needs_ranges_that_do_not_overlap(compare, base, ours, verdict):
    row, = compare.rows({"a": base}, {"a": ours})
    assert row.verdict == verdict


def test_a_commit_that_is_none_is_named(compare, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["compare.py", "no-such-commit"])
    with pytest.raises(SystemExit, match="no-such-commit"):
        compare.main()
