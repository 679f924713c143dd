"""Whether out-of-memory errors name budgets that help: networks under budgets that fail.

Usage: python bench/budgets_to_try.py [NETWORK:MODE...] [--smoke] [--markdown FILE] [--workers N]

For each network and optimizer, of the end-to-end tests, bisection finds the least budget under
which two steps run, to within a percent. Then budgets below it are tried. Of each error the table
has the bound, which has to be above the budget that failed (it is of the moment of the failure:
another schedule may do with less); the budget to try, beside the least; and the bytes that could
have been evicted or were free, beside the request. `tries`: how many jobs it takes to get one that
runs if each runs under what the one before was told to try. Ends with status 1 if an error says
what must not be.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import measure

sys.path.insert(0, str(measure.ROOT / "tests" / "e2e"))

import harness
from lab import Runner

PAIRS = ("mlp:sgd", "mlp:adam_loop", "mlp:adam_foreach", "resnet18:sgd", "resnet18:autocast",
         "resnet50:adamw_fused", "gpt:adam_foreach", "gpt:autocast", "bilstm:sgd", "vae:adam_loop",
         "densenet:adamw_fused", "mobilenet:autocast", "unet:sgd", "detector:adam_loop",
         "vit:adam_foreach", "translation:adam_loop", "graph:sgd", "diffusion:adamw_fused",
         "gan:adam_loop", "statespace:sgd")
SHARES = (0.97, 0.8, 0.5)  # of the least budget that runs
SMOKE_PAIRS, SMOKE_SHARES = ("unet:sgd",), (0.9,)
STEPS = 2
MOST_TRIES = 8


@dataclass
class Row:
    """One budget that failed, and what its error says; bytes, or None where it says nothing."""

    pair: str
    least: int
    budget: int
    requested: int
    bound: int
    to_try: int | None
    steps_seen: bool  # the budget to try is by whole steps, not only by what had run
    runs: bool | None  # under the budget to try
    tries: int | None  # None: more than MOST_TRIES, or an error names no budget
    reached: int | None  # the budget of the last of them
    unpinned: int  # free, or could have been evicted

    @property
    def problems(self) -> list[str]:
        """Return what must not be, of this error."""
        found = []
        if self.bound <= self.budget:
            found.append("the bound is not above the budget that failed")
        if self.unpinned > 2 * self.requested:
            found.append("a request failed although twice as much could go")
        return found

    @property
    def excess(self) -> float | None:
        """Return by which share the budget to try exceeds the least that runs."""
        return None if self.to_try is None else self.to_try / self.least - 1


def error_under(runner: Runner, pair: str, budget: int) -> str | None:
    """Return the out-of-memory error of a job under a budget; None if it runs."""
    answer = runner.ask({"pairs": [pair], "size": "budget", "steps": STEPS, "threads": 1,
                         "settings": {"budget": budget}})
    return answer["results"][pair]["error"]


def least_budget(runner: Runner, pair: str) -> int:
    """Return the least budget that runs, to within a percent."""
    answer = runner.ask({"pairs": [pair], "size": "budget", "steps": STEPS, "threads": 1,
                         "settings": {"budget": harness.AMPLE}})
    return measure.least(lambda budget: error_under(runner, pair, budget) is None, 0,
                         answer["stats"]["reserved_peak_bytes"])


def budget_to_try(error: str) -> int | None:
    """Return the budget to try that an error names, if it names one."""
    return harness.bytes_in(error, "A budget to try:") if "A budget to try:" in error else None


def chase(runner: Runner, pair: str, error: str) -> tuple[int | None, int | None]:
    """Follow the budgets to try until one runs: how many that takes, and the last one."""
    budget = None
    for tries in range(1, MOST_TRIES + 1):
        budget = budget_to_try(error)
        if budget is None:
            break
        following = error_under(runner, pair, budget)
        if following is None:
            return tries, budget
        error = following
    return None, budget


def rows_of(runner: Runner, pair: str, shares: tuple[float, ...]) -> list[Row]:
    """Return a row for each of the budgets of a network that fail."""
    least = least_budget(runner, pair)
    rows = []
    for share in shares:
        budget = int(least * share)
        error = error_under(runner, pair, budget)
        if error is None:  # policies have holes: a smaller budget runs
            continue
        pinned = harness.bytes_in(error, "Cannot be evicted now:")
        to_try = budget_to_try(error)
        tries, reached = chase(runner, pair, error)
        rows.append(Row(
            pair, least, budget, harness.bytes_in(error, "out of memory:"),
            harness.lower_bound(error), to_try, "first steps run" in error,
            None if to_try is None else tries == 1, tries, reached, budget - pinned))
    return rows


def markdown(rows: list[Row]) -> str:
    """Return the table, and below it the counts that matter."""
    def mib(size: int | None) -> str:
        return "-" if size is None else f"{size / 2**20:.2f}"

    lines = ["| network | least | failed | bound | to try | seen | runs | over least | tries | "
             "reached | unpinned / request |", "| --- " * 11 + "|"]
    for row in rows:
        seen = "-" if row.to_try is None else "steps" if row.steps_seen else "a part"
        runs = {None: "-", True: "yes", False: "no"}[row.runs]
        excess = "-" if row.excess is None else f"{row.excess:+.1%}"
        lines.append(f"| {row.pair} | {mib(row.least)} | {mib(row.budget)} | {mib(row.bound)} | "
                     f"{mib(row.to_try)} | {seen} | {runs} | {excess} | {row.tries or '-'} | "
                     f"{mib(row.reached)} | {row.unpinned / row.requested:.2f} |")
    named = [row for row in rows if row.to_try is not None]
    problems = [text for row in rows for text in row.problems]
    lines += ["", f"{len(rows)} failures. Bounds not above what failed: "
              f"{sum('bound' in text for text in problems)}; above the least: "
              f"{sum(row.bound > row.least for row in rows)}. Twice the request unpinned: "
              f"{sum('twice' in text for text in problems)}. Budgets to try: {len(named)}."]
    for kind, seen in (("whole steps", True), ("part of the first", False)):
        these = [row for row in named if row.steps_seen == seen]
        good = [row for row in these if row.runs and row.excess <= 0.05]
        lines.append(f"By {kind}: {len(these)}, of which {sum(bool(row.runs) for row in these)} "
                     f"run, {len(good)} of these within 5 % of the least.")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="*", metavar="NETWORK:MODE")
    parser.add_argument("--smoke", action="store_true", help="one network under one budget")
    parser.add_argument("--markdown", type=Path, help="where the table goes")
    parser.add_argument("--json", type=Path, help="where the rows go")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    pairs = options.pairs or (SMOKE_PAIRS if options.smoke else PAIRS)
    shares = SMOKE_SHARES if options.smoke else SHARES
    runners: queue.SimpleQueue[Runner] = queue.SimpleQueue()
    for _ in range(min(options.workers, len(pairs))):
        runners.put(Runner())

    def ask(pair: str) -> list[Row]:
        runner = runners.get()
        try:
            found = rows_of(runner, pair, shares)
        finally:
            runners.put(runner)
        for row in found:
            for problem in row.problems:
                print(f"{row.pair} under {row.budget}: {problem}", flush=True)
        return found

    with ThreadPoolExecutor(runners.qsize()) as pool:
        rows = [row for found in pool.map(ask, pairs) for row in found]
    while not runners.empty():
        runners.get().close()
    text = markdown(rows)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 1 if any(row.problems for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
