"""What the price of moving a page does to the ways of making room: a sweep over recorded traces.

Usage: python bench/prices.py [NETWORK...] [--policy P] [--iterations N] [--plans N] [--corners]
       [--smoke] [--pages-only] [--page MIB] [--markdown FILE] [--svg FILE]

Each point is one run of tidepool-replay, of a GPU's trace, under one set of prices: of mapping a
page elsewhere, of the wait for the device before that, and of copies within the device. Every way
of making room is tried alone, and then all of them, of which the allocator takes the cheapest.
Windows and moves alone have a slab, which holds the budget to the byte, or with --pages-only whole
pages, as all ways together have: what is left between the two is what whole pages cost.
The table has the geometric means of the overheads, and the points at which the best of the ways
alone is beaten by more than TOLERANCE. A failure counts as FAILED; a point that all fail is left
out.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import corpus
import curves
import policy_bench
import run
import ways
from policy_summary import geometric_mean
from ways import Row

MAP_US = (0, 5, 20, 75, 200)  # of one page
DRAIN_MS = (0, 1, 5)  # once for each request that moves pages
COPY_GBS = (1000, 3000)
PAGE_MIB = (2, 16)
RATIOS = (0.7, 0.5, 0.3)
NETWORKS = ("resnet50", "gpt", "unet", "vit", "treelstm", "statespace")
# The memory of each way. A slab needs no pages that can move.
WAYS = {"windows": "arena", "moves": "arena", "pages": "pages", "all": "pages"}
ALONE = ("windows", "moves", "pages")
TOLERANCE = 0.01


@dataclass(frozen=True)
class Prices:
    """What a device asks for; pages of one size."""

    map_us: float
    drain_ms: float
    copy_gbs: float
    page_mib: int

    def options(self) -> list[str]:
        """Return the options of tidepool-replay that say so."""
        return ["--map-ns", f"{self.map_us * 1000:.0f}", "--drain-ns",
                f"{self.drain_ms * 1e6:.0f}", "--copy-speed", f"{self.copy_gbs:g}",
                "--page", f"{self.page_mib}MiB"]


@dataclass(frozen=True)
class Point:
    """One question: what does this way make of the trace at these prices?"""

    network: str
    ratio: float
    way: str
    prices: Prices
    memory: str

    def asked(self) -> Point:
        """Return the point with the same answer that is run: a slab's pages cost nothing."""
        if self.memory != "arena":
            return self
        prices = Prices(0, 0, self.prices.copy_gbs if self.way == "moves" else COPY_GBS[0],
                        PAGE_MIB[0])
        return Point(self.network, self.ratio, self.way, prices, self.memory)


def all_prices(corners: bool, page_mib: Sequence[int]) -> list[Prices]:
    """Return the prices of the sweep, or only its four corners: pages and waits, free or dear."""
    if corners:
        return [Prices(map_us, drain_ms, COPY_GBS[0], page_mib[0])
                for map_us in (MAP_US[0], MAP_US[-1]) for drain_ms in (DRAIN_MS[0], DRAIN_MS[-1])]
    return [Prices(*each) for each in itertools.product(MAP_US, DRAIN_MS, COPY_GBS, page_mib)]


def overhead(point: Point, policy: str, iterations: int, plans: int) -> float | None:
    """Run one point; return its overhead, None if it fails."""
    question = policy_bench.Point(
        "", "", policy, point.memory, point.ratio, iterations,
        " ".join([*point.prices.options(), "--ways", point.way, "--search", str(plans)]))
    return policy_bench.answer(question, ways.trace_of(point.network),
                               policy_bench.program())["overhead"]


def rows_of(found: dict[Point, float | None]) -> dict[tuple[Prices, str, float], Row]:
    """Return the ways' overheads side by side, of the points that any way runs."""
    return ways.side_by_side(((point.prices, point.network, point.ratio), point.way, value)
                             for point, value in found.items())


def excess(row: Row) -> float:
    """Return by which share all ways together take longer than the best of them alone."""
    return row["all"] / min(row[way] for way in ALONE) - 1


def summary(group: Sequence[Row]) -> str:
    """Return the cells that sum rows up: geometric means, and how far above the best they are."""
    means = " | ".join(f"{geometric_mean([row[way] for row in group]):.3f}" for way in WAYS)
    above = sum(excess(row) > TOLERANCE for row in group)
    return f"{means} | {max(map(excess, group)):+.1%} | {above} of {len(group)} |"


SUMMARY = " | ".join(WAYS) + f" | greatest excess | above {TOLERANCE:.0%} |"  # its header


def label(prices: Prices) -> str:
    return (f"| {prices.page_mib} | {prices.copy_gbs / 1000:g} | {prices.drain_ms:g} | "
            f"{prices.map_us:g} |")


def table(rows: dict[tuple[Prices, str, float], Row]) -> Iterator[str]:
    """Yield a line for each set of prices."""
    yield f"| page MiB | copies TB/s | wait ms | page us | {SUMMARY}"
    yield "| ---: " * (6 + len(WAYS)) + "|"
    groups: dict[Prices, list[Row]] = defaultdict(list)
    for (prices, _, _), row in rows.items():
        groups[prices].append(row)
    for prices in sorted(groups, key=lambda p: (p.page_mib, p.copy_gbs, p.drain_ms, p.map_us)):
        yield f"{label(prices)} {summary(groups[prices])}"


def worst(rows: dict[tuple[Prices, str, float], Row], most: int) -> Iterator[str]:
    """Yield the points that are furthest above the best way alone."""
    yield ("| network | ratio | page MiB | copies TB/s | wait ms | page us | "
           + " | ".join(WAYS) + " | excess |")
    yield "| --- " + "| ---: " * (6 + len(WAYS)) + "|"
    found = sorted(rows.items(), key=lambda item: -excess(item[1]))
    for (prices, network, ratio), row in found[:most]:
        if excess(row) <= TOLERANCE:
            return
        yield (f"| {network} | {ratio:g} {label(prices)} "
               + " | ".join(f"{row[way]:.3f}" for way in WAYS) + f" | {excess(row):+.1%} |")


def by_network(rows: dict[tuple[Prices, str, float], Row]) -> Iterator[str]:
    """Yield each network's excess, over all prices and ratios."""
    yield f"| network | {SUMMARY}"
    yield "| --- " + "| ---: " * (2 + len(WAYS)) + "|"
    for network in dict.fromkeys(network for _, network, _ in rows):
        group = [row for (_, name, _), row in rows.items() if name == network]
        yield f"| {network} | {summary(group)}"


def picture(rows: dict[tuple[Prices, str, float], Row], policy: str) -> str:
    """Return a plot of the means over the price of a page, all else taken together."""
    lines = {}
    for way in WAYS:
        lines[way] = [(price, geometric_mean([row[way] for (prices, _, _), row in rows.items()
                                              if prices.map_us == price]))
                      for price in sorted({prices.map_us for prices, _, _ in rows})]
    return curves.draw(lines, f"{policy}: mean overhead by the price of a page",
                       x_title="us for each page that moves")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", metavar="NETWORK", nargs="*",
                        help=f"default: {', '.join(NETWORKS)}; with --corners all")
    parser.add_argument("--policy", default="needed-cost")
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--plans", type=int, default=50, metavar="N",
                        help="simulations at most in search of a plan, for a policy that has them")
    parser.add_argument("--corners", action="store_true", help="only the four extreme prices")
    parser.add_argument("--pages-only", action="store_true",
                        help="every way alone in whole pages, too")
    parser.add_argument("--page", type=int, action="append", metavar="MIB",
                        help=f"only pages of this size (default: {PAGE_MIB})")
    parser.add_argument("--smoke", action="store_true", help="one network, one budget, the corners")
    parser.add_argument("--most", type=int, default=20, help="points named, the worst first")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--markdown", type=Path, help="where the tables go")
    parser.add_argument("--svg", type=Path, help="where the plot goes")
    options = parser.parse_args(arguments)
    corners = options.corners or options.smoke
    networks = options.networks or (NETWORKS[:1] if options.smoke else
                                    corpus.networks() if corners else NETWORKS)
    ratios = RATIOS[1:2] if options.smoke else RATIOS
    points = [Point(network, ratio, way, prices, "pages" if options.pages_only else memory)
              for prices in all_prices(corners, options.page or PAGE_MIB)
              for network in networks for ratio in ratios for way, memory in WAYS.items()]
    rows = rows_of(ways.overheads(
        points, lambda point: overhead(point, options.policy, options.iterations, options.plans),
        options.jobs))
    above = sum(excess(row) > TOLERANCE for row in rows.values())
    text = "\n".join([
        f"Policy `{options.policy}`, iteration {options.iterations}; commit {run.commit()}.", "",
        *table(rows), "", *by_network(rows), "",
        f"{above} of {len(rows)} points are more than {TOLERANCE:.0%} above the best way alone"
        + (":" if above else "."), *(["", *worst(rows, options.most)] if above else []), ""])
    print(text)
    if options.markdown:
        options.markdown.write_text(text)
    if options.svg:
        options.svg.write_text(picture(rows, options.policy))
    return 0


if __name__ == "__main__":
    sys.exit(main())
