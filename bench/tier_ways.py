"""What a second tier gains: recomputing, copying, `delta`, and our choice between both, by budget.

Usage: python bench/tier_ways.py [NETWORK...] [--policy P] [--iterations N] [--speeds S,S...]
       [--beside] [--plans N] [--smoke] [--markdown FILE] [--json FILE]

Each point is one run of tidepool-replay, of a GPU's trace, under a share of its whole peak, with
parameters, gradients and optimizer state. Contents leave by recomputing alone, by copying alone,
by `delta` (DELTA's filter and director), or by the way that costs less; copies go over links of
several speeds. The tables have the geometric means of the overheads, how many networks run, and the
points at which the choice takes longer than the best of the three by more than TOLERANCE; and the
least budgets with and without a tier. A failure counts as FAILED; a point that all fail is left
out. With --plans these points are run again as jobs run steps that repeat themselves: by a plan
that up to N simulations have found.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import corpus
import policy_bench
import run
import ways
from policy_summary import FAILED, geometric_mean
from ways import Row

SPEEDS = (12.0, 25.0, 55.0, 450.0)  # GB/s each way
RATIOS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
ROOM = "256GiB"  # more than any of the traces has
WAYS = ("recomputing", "copying", "delta", "both")
OTHERS = WAYS[:3]
PLANNED, ITERATIONS = "planned", 7  # a plan is there from the fifth or sixth on
TOLERANCE = 0.01


@dataclass(frozen=True)
class Point:
    """One question: what does the trace take in this way over this link?"""

    network: str
    ratio: float
    speed: float
    way: str

    def asked(self) -> Point:
        """Return the point with the same answer that is run: recomputing uses no link."""
        if self.way != "recomputing":
            return self
        return Point(self.network, self.ratio, 0, self.way)


def tier_options(way: str, speed: float, beside: bool) -> list[str]:
    """Return the options of tidepool-replay that give a way its tier."""
    if way == "recomputing":
        return []
    return ["--tier", f"{ROOM}@{speed:g}", "--beside", "yes" if beside else "no",
            *(["--recompute", "no"] if way == "copying" else [])]


def overhead(point: Point, settings: argparse.Namespace) -> float | None:
    """Run one point; return its overhead, None if it fails."""
    options = tier_options(point.way, point.speed, settings.beside)
    policy = point.way if point.way in ("delta", PLANNED) else settings.policy
    if policy == PLANNED:
        simulations = settings.plans if point.way == PLANNED else 0
        options = [*options, "--search", str(simulations)]
    question = policy_bench.Point("", "", policy, "pages", point.ratio, settings.iterations,
                                  " ".join(options))
    return policy_bench.answer(question, ways.trace_of(point.network),
                               policy_bench.program())["overhead"]


Budgets = dict[str, list[float]]  # of each network, without a tier and with one


def least_budgets(networks: Sequence[str], settings: argparse.Namespace) -> Budgets:
    """Return the least budgets, as shares of the networks' peaks."""
    def least(network: str, way: str) -> float:
        options = tier_options(way, settings.speeds[0], settings.beside)
        answer = policy_bench.ask(ways.trace_of(network), "--least-budget",
                                  "--policy", settings.policy, *options)
        return answer["simulated_bytes"] / answer["peak_bytes"]

    questions = [(network, way) for network in networks for way in ("recomputing", "both")]
    with ThreadPoolExecutor(settings.jobs) as pool:
        found = list(pool.map(lambda each: least(*each), questions))
    return {network: found[2 * k:2 * k + 2] for k, network in enumerate(networks)}


Rows = dict[tuple[float, str, float], Row]  # by speed, network and ratio


def rows_of(found: dict[Point, float | None]) -> Rows:
    """Return the ways' overheads side by side, of the points that any way runs."""
    return ways.side_by_side(((point.speed, point.network, point.ratio), point.way, value)
                             for point, value in found.items())


def excess(row: Row, way: str = "both") -> float:
    """Return by which share the choice takes longer than the best of the others."""
    return row[way] / min(row[other] for other in OTHERS) - 1


def add_plans(rows: Rows, settings: argparse.Namespace) -> None:
    """Run the points where the choice is above the best of the others by a plan, too."""
    points = [Point(network, ratio, speed, PLANNED) for (speed, network, ratio), row in rows.items()
              if excess(row) > TOLERANCE]
    found = ways.overheads(points, lambda point: overhead(point, settings), settings.jobs)
    for point, value in found.items():
        rows[point.speed, point.network, point.ratio][PLANNED] = ways.capped(value)


def cell(overheads: Sequence[float]) -> str:
    """Return the mean of overheads, and how many of them are no failures."""
    return f"{geometric_mean(overheads):.3f} ({sum(each < FAILED for each in overheads)})"


def means(rows: Rows, speed: float) -> Iterator[str]:
    """Yield the table of one link's speed: a line for each budget."""
    yield f"| ratio | points | {' | '.join(WAYS)} | above by {TOLERANCE:.0%} |"
    yield "| ---: " * (3 + len(WAYS)) + "|"
    for ratio in sorted({ratio for _, _, ratio in rows}):
        group = [row for (s, _, r), row in rows.items() if (s, r) == (speed, ratio)]
        if not group:
            continue
        cells = " | ".join(cell([row[way] for row in group]) for way in WAYS)
        above = sum(excess(row) > TOLERANCE for row in group)
        yield f"| {ratio:g} | {len(group)} | {cells} | {above} |"


def verdict(rows: Rows, speed: float) -> str:
    """Return how often the choice is as good as the best of the others, over one link."""
    group = [row for (s, _, _), row in rows.items() if s == speed]
    within = sum(excess(row) <= TOLERANCE for row in group)
    better = sum(row["both"] < (1 - TOLERANCE) * min(row[way] for way in OTHERS) for row in group)
    each = ", ".join(f"{way} {geometric_mean([row['both'] / row[way] for row in group]):.3f}"
                     for way in OTHERS)
    planned = [row for row in group if PLANNED in row]
    left = sum(excess(row, PLANNED) > TOLERANCE for row in planned)
    plans = f" By a plan {left} of these {len(planned)} points are." if planned else ""
    return (f"Over {speed:g} GB/s the choice is not above the best of the three by more than "
            f"{TOLERANCE:.0%} at {within} of {len(group)} points ({within / len(group):.0%}), and "
            f"better by more than that at {better}; the worst is {1 + max(map(excess, group)):.2f} "
            f"times the best.{plans} Its overhead as a multiple of each, geometric means: {each}.")


def worst(rows: Rows, most: int) -> Iterator[str]:
    """Yield the points that are furthest above the best of the others."""
    columns = [*WAYS, PLANNED] if any(PLANNED in row for row in rows.values()) else WAYS
    yield "| network | ratio | GB/s | " + " | ".join(columns) + " | above |"
    yield "| --- " + "| ---: " * (3 + len(columns)) + "|"
    for (speed, network, ratio), row in sorted(rows.items(), key=lambda item: -excess(item[1])):
        if most == 0 or excess(row) <= TOLERANCE:
            return
        most -= 1
        yield (f"| {network} | {ratio:g} | {speed:g} | "
               + " | ".join("-" if row[way] >= FAILED else f"{row[way]:.3f}" for way in columns)
               + f" | {excess(row):+.1%} |")


def least_table(found: Budgets) -> Iterator[str]:
    """Yield each network's least budgets."""
    yield "| network | without | with | with / without |"
    yield "| --- | ---: | ---: | ---: |"
    for network, (without, with_tier) in found.items():
        yield f"| {network} | {without:.3f} | {with_tier:.3f} | {with_tier / without:.3f} |"
    without, with_tier = (geometric_mean(column) for column in zip(*found.values(), strict=True))
    yield f"| geometric mean | {without:.3f} | {with_tier:.3f} | {with_tier / without:.3f} |"


def document(rows: Rows, budgets: Budgets, options: argparse.Namespace) -> str:
    """Return the results as Markdown."""
    networks = len({network for _, network, _ in rows})
    beside = "run beside operators" if options.beside else "are waited for"
    plans = (f" `{PLANNED}` is what jobs do once a plan has been found, by up to {options.plans} "
             f"simulations." if options.plans else "")
    policy = options.policy + (" --search 0" if options.policy == PLANNED else "")
    parts = ["# Recomputing, copying, and both", "",
             f"`{options.command}`, policy `{policy}`, iteration {options.iterations}, "
             f"commit {run.commit()}; {networks} traces of GPU scale, in simulation: the machine "
             f"does not matter. The ratio is of the whole peak, with parameters, gradients and "
             f"optimizer state. Transfers {beside}. Overheads are geometric means over the points "
             f"that any way runs, a failure counting as {FAILED:g}, and in brackets how many run."
             f"{plans}"]
    for speed in options.speeds:
        parts += ["", f"## {speed:g} GB/s each way", "", *means(rows, speed), "",
                  verdict(rows, speed)]
    parts += ["", "## Where one of the three is better", "", *worst(rows, options.most), "",
              "## The least budgets", "",
              f"As shares of the whole peak, in the first iteration, without a tier and with one "
              f"over {options.speeds[0]:g} GB/s.", "", *least_table(budgets), ""]
    return "\n".join(parts)


def parse_speeds(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", metavar="NETWORK", nargs="*", help="default: all")
    parser.add_argument("--policy", default=PLANNED,
                        help="of all but delta; default: that of jobs, without a plan")
    parser.add_argument("--iterations", type=int, default=ITERATIONS, help="which one counts")
    parser.add_argument("--speeds", type=parse_speeds, default=list(SPEEDS), metavar="S,S...")
    parser.add_argument("--beside", action="store_true", help="transfers run beside operators")
    parser.add_argument("--plans", type=int, default=0, metavar="N",
                        help="where the choice is not the best, look for a plan, too")
    parser.add_argument("--smoke", action="store_true", help="one network, one budget, one link")
    parser.add_argument("--most", type=int, default=20, help="points named, the worst first")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--markdown", type=Path, help="where the tables go")
    parser.add_argument("--json", type=Path, help="where the points go")
    options = parser.parse_args(arguments)
    given = sys.argv[1:] if arguments is None else arguments
    options.command = " ".join(["python bench/tier_ways.py", *given])
    networks = options.networks or corpus.networks()
    ratios = RATIOS
    if options.smoke:
        networks, ratios, options.speeds = networks[:1], RATIOS[1:2], options.speeds[-1:]
    points = [Point(network, ratio, speed, way) for speed in options.speeds
              for network in networks for ratio in ratios for way in WAYS]
    found = ways.overheads(points, lambda point: overhead(point, options), options.jobs)
    rows = rows_of(found)
    if options.plans:
        add_plans(rows, options)
    text = document(rows, least_budgets(networks, options), options)
    print(text)
    if options.markdown:
        options.markdown.write_text(text)
    if options.json:
        lines = [json.dumps({**asdict(point), "overhead": value}) for point, value in found.items()]
        options.json.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
