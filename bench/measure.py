"""What the benchmarks in Python share: results, their summary, options, where things are built."""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
CARRIED = ROOT / "build" / "gpu-package"  # made elsewhere by `./dev gpu-package`


@dataclass
class Result:
    """One measured number: of `runs` runs the minimum, median, and 10th and 90th percentile.

    `goal`, if there is one, is for the minimum.
    """

    name: str
    unit: str
    runs: int
    minimum: float
    median: float
    spread: tuple[float, float]
    goal: float | None = None

    @property
    def verdict(self) -> str:
        """Return whether the goal is met, in words."""
        if self.goal is None:
            return ""
        return "met" if self.minimum <= self.goal else "missed"


def summarize(name: str, unit: str, samples: Sequence[float], goal: float | None = None,
              minimum: float | None = None) -> Result:
    """Return the summary of samples; `minimum` where it is not that of the samples."""
    ordered = sorted(samples)
    spread = tuple(ordered[round((len(ordered) - 1) * q)] for q in (0.1, 0.9))
    return Result(name, unit, len(ordered), ordered[0] if minimum is None else minimum,
                  statistics.median(ordered), spread, goal)


def added(name: str, unit: str, base: Sequence[float], ours: Sequence[float],
          goal: float | None = None) -> Result:
    """Return what is added to `base`, by paired runs.

    The minimum is the difference of the two minima: that of the differences would reward noise.
    """
    pairs = [b - a for a, b in zip(base, ours, strict=True)]
    return summarize(name, unit, pairs, goal, minimum=min(ours) - min(base))


def table(results: Sequence[Result]) -> str:
    """Return results as a table for a terminal."""
    rows = [("", "minimum", "median", "10 % - 90 %", "unit", "goal", "")]
    for r in results:
        digits = 1 if r.unit else 2  # a ratio, or a count
        spread = f"{r.spread[0]:.{digits}f} - {r.spread[1]:.{digits}f}"
        goal = "" if r.goal is None else f"<= {r.goal:g}"
        rows.append((r.name, f"{r.minimum:.{digits}f}", f"{r.median:.{digits}f}", spread, r.unit,
                     goal, r.verdict))
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [f"{c:<{w}}" if k in (0, 4, 6) else f"{c:>{w}}"
                 for k, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def options(description: str) -> argparse.ArgumentParser:
    """Return a parser with what every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--smoke", action="store_true", help="run for a moment only")
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")
    return parser


def report(parsed: argparse.Namespace, results: Sequence[Result]) -> None:
    """Print results, and write them where the options say; a smoke run is not judged."""
    if parsed.smoke:
        results = [replace(r, goal=None) for r in results]
    print(table(results))
    if parsed.json:
        Path(parsed.json).write_text(json.dumps([asdict(r) for r in results], indent=2) + "\n")


def attach(budget: str, device: str = "cpu"):
    """Attach Tidepool to this process, quietly, and return its plugin."""
    os.environ["TIDEPOOL_QUIET"] = "1"
    if device == "cpu":
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import tidepool
    from tidepool.job import _job

    tidepool.enable(budget=budget, device=device)
    return _job.current().plugin


def uses_carried() -> bool:
    """Return whether programs and libraries are carried because nothing was built here."""
    here = ROOT / "bindings" / "python" / "tidepool" / "lib"
    return CARRIED.exists() and not any(here.glob("libtidepool_torch_cuda_*.so"))


def package() -> Path:
    """Return the folder to import `tidepool` from: this tree's, or what is carried."""
    return CARRIED / "python" if uses_carried() else ROOT / "bindings" / "python"


def with_package(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python finds `tidepool`, and what is carried for tests."""
    folders = [str(package()), *filter(None, [environ.get("PYTHONPATH")])]
    return {**environ, "PYTHONPATH": os.pathsep.join(folders)}


def built(name: str) -> Path:
    """Return a program or library of bench/, from this tree's build or what is carried.

    Raises:
        SystemExit: it is nowhere.
    """
    folder = CARRIED / "bin" if uses_carried() else build_folder() / "bench"
    if not (folder / name).exists():
        sys.exit(f"{name} is not built: run ./dev gpu-package where there is a compiler")
    return folder / name


def least(runs: Callable[[int], bool], low: int, high: int, within: float = 0.01) -> int:
    """Return the least size that runs, by bisection.

    Args:
        runs: tries a size.
        low: a size that does not run.
        high: one that should; where it does not, larger ones are tried.
        within: how exactly, as a share of it.
    """
    while not runs(high):
        low, high = high, high + high // 10
    while high - low > within * high:
        middle = (low + high) // 2
        if runs(middle):
            high = middle
        else:
            low = middle
    return high


def budget_to_try(errors: str) -> int | None:
    """Return the budget to try that the last of a job's out-of-memory errors names, if one does."""
    found = re.findall(r"A budget to try: [^(]*\((\d+) bytes", errors)
    return int(found[-1]) if found else None


def build_folder() -> Path:
    """Return the build that the Python package uses, or else the newest one."""
    folder = ROOT / "bindings" / "python" / "tidepool" / "lib"
    library = next(folder.glob("libtidepool_torch_*.so"), None)
    if library is not None and (library.resolve().parents[1] / "bench").is_dir():
        return library.resolve().parents[1]
    builds = [path.parent for path in (ROOT / "build").glob("*/bench")]
    if not builds:
        sys.exit("nothing is built: run ./dev build")
    return max(builds, key=lambda path: path.stat().st_mtime)
