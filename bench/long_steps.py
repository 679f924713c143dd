"""Steps that are long or never the same: whether bits stay, and what searches and replays take.

Usage: python bench/long_steps.py [KIND...] [--ways W;W...] [--out FILE]

The jobs (bench/jobs/train_long_steps.py) are a recurrence of 10^5 operators, experts to which each
step routes otherwise, a cache of keys and values that grows while words are drawn and learnt from,
and batches of another length in each step. They run as bench/real_scripts.py runs scripts; times
are shares of the steps but the first, as the clock on the wall has them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import run
from real_scripts import JOBS, Runner, Script, under, verdict

STEPS = {"operators": 2, "experts": 6, "cache": 3, "lengths": 8}
WAYS = ("ample", "r=0.6", "bounded:1")


def rows(kind: str, ways: Sequence[str]) -> list[str]:
    """Run a job in all ways; return its lines of the table."""
    target = [str(JOBS / "train_long_steps.py"), kind, str(STEPS[kind])]
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Script("torch", ""), target, Path(folder))
        plain = runner.run()
        made, ample = [], None
        for way in ways:
            budget, ran = runner.attached(way, ample)
            ample = ample or ran
            said = verdict(plain, None, ran)
            if ran.printed != plain.printed:
                said += ", **PRINTS OTHERWISE**"
            cells = [kind, way, said + under(way, budget, ran, ample)]
            if ran.said and "search" in ran.said[0]:
                seconds = ran.said[0]["seconds"]
                cells += [f"{seconds / plain.said[0]['seconds']:.2f}",
                          *(f"{ran.said[0][key] / seconds:.1%}" for key in ("search", "replay"))]
            made.append(f"| {' | '.join(cells)} |")
            print(made[-1], flush=True)
    return made


def text(made: Sequence[str]) -> str:
    """Return the table."""
    head = ["job", "way", "bits", "time, of plain", "searches", "replays"]
    return "\n".join([
        "# Steps that are long or never the same", "",
        f"`python bench/long_steps.py`; {run.machine()['cpu']}, commit {run.commit()}.",
        "In brackets the budget as a share of the peak, and what was done to keep it. Searches and",
        "replays are shares of the time of all steps but the first.",
        "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *made, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs and write the table; return 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(STEPS))
    parser.add_argument("--ways", type=lambda given: given.split(";"), default=list(WAYS),
                        help="separated by semicolons, ample first")
    parser.add_argument("--out", type=Path, help="a file for the table")
    options = parser.parse_args(arguments)
    made: list[str] = []
    for kind in options.kinds or STEPS:
        made += rows(kind, options.ways)
        if options.out:  # so that what is done is there if the rest is broken off
            options.out.write_text(text(made))
    return int("**" in "".join(made))


if __name__ == "__main__":
    sys.exit(main())
