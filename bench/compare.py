"""Compare the allocator's benchmarks of this source tree with those of another commit.

    python bench/compare.py COMMIT [--filter REGEX] [--rounds N]

Builds both as releases (under build/compare), runs them in turns, and prints a row for each
benchmark that both have. Faster or slower is said only where the ranges from the 10th to the 90th
percentile do not overlap; whatever else the machine did in the meantime hit both alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = "tidepool_allocator_bench"
Times = dict[str, list[float]]  # benchmark -> CPU nanoseconds


@dataclass(frozen=True)
class Row:
    """One benchmark: medians in nanoseconds, and what may be said about them."""

    name: str
    base: float
    ours: float
    verdict: str

    @property
    def ratio(self) -> float:
        return self.ours / self.base if self.base else float("inf")


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"compare: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def build(source: Path, folder: Path) -> Path:
    """Build the benchmarks of a source tree; return the program."""
    for command in (["cmake", "--preset", "release", "-S", str(source), "-B", str(folder),
                     "-D", "TIDEPOOL_BINDINGS=OFF", "-D", "TIDEPOOL_TESTS=OFF"],
                    ["cmake", "--build", str(folder), "--target", TARGET]):
        done = subprocess.run(command, cwd=source, text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"compare: {' '.join(command)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return folder / "bench" / TARGET


def build_commit(commit: str) -> Path:
    """Build the benchmarks of a commit, once."""
    folder = ROOT / "build" / "compare" / commit
    program = folder / "build" / "bench" / TARGET
    if program.exists():
        return program
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", commit],
                               stdout=subprocess.PIPE)
    unpacked = subprocess.run(["tar", "-x", "-C", str(source)], stdin=archive.stdout)
    if archive.wait() != 0 or unpacked.returncode != 0:
        sys.exit(f"compare: commit {commit} cannot be unpacked")
    return build(source, folder / "build")


def measure(program: Path, arguments: Sequence[str], times: Times) -> None:
    """Run a program once, and add the CPU time of each of its benchmarks."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        subprocess.run([str(program), f"--benchmark_out={out}", "--benchmark_out_format=json",
                        *arguments], check=True, stdout=subprocess.DEVNULL)
        scale = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
        for run in json.loads(out.read_text())["benchmarks"]:
            if run["run_type"] == "iteration" and "error_occurred" not in run:
                nanoseconds = run["cpu_time"] * scale[run["time_unit"]]
                times.setdefault(run["name"], []).append(nanoseconds)


def spread(samples: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(samples)
    low, high = (ordered[round((len(ordered) - 1) * q)] for q in (0.1, 0.9))
    return low, high


def rows(base: Times, ours: Times) -> list[Row]:
    """Return the rows of the benchmarks that both have, in our order."""
    made = []
    for name, samples in ours.items():
        if name not in base:
            continue
        (base_low, base_high), (low, high) = spread(base[name]), spread(samples)
        verdict = "faster" if high < base_low else "slower" if low > base_high else ""
        made.append(Row(name, statistics.median(base[name]), statistics.median(samples), verdict))
    return made


def table(made: Sequence[Row], base: str, ours: str) -> str:
    lines = [f"{'':<60} {base:>14} {ours:>14}  ratio"]
    lines += [f"{row.name:<60} {row.base:>11.1f} ns {row.ours:>11.1f} ns  {row.ratio:5.2f}"
              f"  {row.verdict}".rstrip() for row in made]
    return "\n".join(lines)


def compare(base: Path, ours: Path, rounds: int, arguments: Sequence[str]) -> list[Row]:
    """Run two programs in turns, each round in the other order."""
    times: tuple[Times, Times] = ({}, {})
    for number in range(rounds):
        pair = [(base, times[0]), (ours, times[1])]
        for program, found in pair if number % 2 == 0 else reversed(pair):
            measure(program, arguments, found)
    return rows(*times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("--filter", default=".", help="benchmarks to run (a regular expression)")
    parser.add_argument("--rounds", type=int, default=9, help="runs of each (default: 9)")
    parsed = parser.parse_args()
    if parsed.rounds < 2:
        parser.error("--rounds: a range needs two runs at least")
    commit = git("rev-parse", "--short=12", parsed.commit + "^{commit}")
    base = build_commit(commit)
    ours = build(ROOT, ROOT / "build" / "compare" / "here")
    made = compare(base, ours, parsed.rounds, [f"--benchmark_filter={parsed.filter}"])
    if not made:
        sys.exit(f"compare: no benchmark of both matches '{parsed.filter}'")
    print(table(made, commit, "here"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
