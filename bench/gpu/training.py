"""The training benchmark of one network as a part of bench/gpu_check.py.

    python training.py NETWORK [--ample | --largest] --keep FILE --seconds N [--smoke]

--ample compares only the plain job with one that has more memory than it needs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import parts  # isort: skip  it says where the next ones are
import train_bench

TURNS, AMPLE_TURNS = 2, 4
AMPLE = ("plain", "ample", "expandable")
SMOKE = ("plain", "ample", "r=0.5")
SMOKE_CAPS = (64,)


def tell(message: str) -> None:
    """Say on standard error what is under way."""
    print(message, file=sys.stderr, flush=True)


def run(options: argparse.Namespace) -> tuple[train_bench.Bench, bool]:
    """Run what is not known yet; return the network's bench, and whether all is done."""
    scale = train_bench.Scale("cuda", "small", 1, 2) if options.smoke else train_bench.Scale("cuda")
    points = train_bench.Points(options.keep, train_bench.mark(scale))
    bench = train_bench.Bench(options.network, scale, points)
    end = time.monotonic() + options.seconds
    ways = scale.ways(AMPLE if options.ample else SMOKE if options.smoke else None)
    turns = 1 if options.smoke else AMPLE_TURNS if options.ample else TURNS
    try:
        if options.largest:
            bench.largest(SMOKE_CAPS if options.smoke else train_bench.CAPS_MIB, end, tell)
        else:
            bench.run(ways, turns, end, tell)
    except train_bench.TimeIsUp:
        return bench, False
    return bench, True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=train_bench.NETWORKS)
    parser.add_argument("--ample", action="store_true", help="only what an ample budget costs")
    parser.add_argument("--largest", action="store_true", help="look for the largest batches")
    parser.add_argument("--keep", type=Path, required=True, help="where it keeps what it has")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--smoke", action="store_true", help="small, one turn, a few ways")
    options = parser.parse_args()
    bench, finished = run(options)
    report = bench.report()
    for title, columns, rows in report.tables():
        parts.table(title, columns, rows)
    picture = report.plot()
    if picture and not options.ample:
        parts.plot(options.network, picture)
    for way in report.ways.values():
        if way.runs:
            parts.samples(f"step, {way.name}", "ms", way.times)
    plain = report.plain
    wrong = [way.name for way in report.ways.values() if way.runs and way.name not in
             train_bench.STOCK and report.bits(way) == "differ"]
    if not options.largest and not plain:
        print(f"the plain job failed: {report.ways['plain'].error}" if report.ways else "no run",
              file=sys.stderr)
        return 1 if finished else parts.UNFINISHED
    if wrong and finished:
        print(f"bits differ: {', '.join(wrong)}", file=sys.stderr)
        return 1
    return 0 if finished else parts.UNFINISHED


if __name__ == "__main__":
    sys.exit(main())
