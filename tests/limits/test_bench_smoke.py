"""Benchmarks run, and leave results that say what they were measured on.

A few of them: TIDEPOOL_FULL=1 takes all.
"""

import re
import subprocess
import sys
from pathlib import Path

from limits_support import ROOT, TIMEOUT_SECONDS
from selection import FULL

RUN = ROOT / "bench" / "run.py"
# The usual run's, with what keeps them short.
FEW = {"operator_overhead": (),
       "allocator_bench": ("--benchmark_filter=hit_pair|window_search|miss_with|replay",)}


def bench(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(RUN), *arguments], text=True, capture_output=True,
                          timeout=TIMEOUT_SECONDS)


def test_benchmarks_run(tmp_path: Path) -> None:
    names = bench("--list").stdout.split()
    assert {*FEW, "transformer_step", "cuda_pairs", "cuda_patterns"} <= set(names)
    names = names if FULL else FEW
    for name in names:
        done = bench(name, "--smoke", "--out", str(tmp_path), *(() if FULL else FEW[name]))
        assert done.returncode == 0, done.stdout + done.stderr
    written = {path.stem: path.read_text().splitlines() for path in tmp_path.iterdir()}
    assert set(written) == set(names)
    for name, (title, _, facts, _, heading, _, *rows) in written.items():
        assert title == f"# {name}"
        assert re.fullmatch(rf"`./dev bench {name} --smoke`; .+, \d+ cores, .+; "
                            r"commit \S+, build \w+; PyTorch \S+, Python \S+; \d{4}-.+", facts)
        assert heading == "|  | minimum | median | 10 % | 90 % | unit | runs |"
        assert rows
        for row in rows:
            _, median, least, most, _, runs = row.strip("| ").rsplit(" | ", 5)
            assert int(runs) > 0 and float(least) <= float(median) <= float(most)


def test_an_unknown_name_is_refused() -> None:
    done = bench("operator_overhaed")
    assert done.returncode == 2
    assert "no benchmark operator_overhaed (there are: operator_overhead" in done.stderr
