"""What many points of tidepool-replay say together: tables and plots by memory model.

A point is feasible if any policy runs it; the others say nothing about policies and are left out of
the means. A policy that fails at a feasible point counts as an overhead of FAILED there.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from curves import draw

FAILED = 5.0

Setting = tuple[str, int]  # memory model, iteration


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean, NaN of nothing."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def by_setting(answers: Sequence[dict]) -> dict[Setting, list[dict]]:
    """Return the answers of each memory model and iteration that have a feasible point."""
    groups: dict[Setting, list[dict]] = defaultdict(list)
    for answer in answers:
        groups[answer["memory"], answer["iterations"]].append(answer)
    return {setting: found for setting, group in groups.items() if (found := feasible(group))}


def feasible(answers: Sequence[dict]) -> list[dict]:
    """Return the answers at points that some policy runs."""
    runs = {(a["trace"], a["ratio"]) for a in answers if a["overhead"] is not None}
    return [answer for answer in answers if (answer["trace"], answer["ratio"]) in runs]


def by_policy(answers: Sequence[dict]) -> dict[str, list[dict]]:
    """Return the answers of each policy, policies in order of their first."""
    groups: dict[str, list[dict]] = defaultdict(list)
    for answer in answers:
        groups[answer["policy"]].append(answer)
    return dict(groups)


def capped(answers: Sequence[dict]) -> float:
    """Return the geometric mean of overheads, failures counted as FAILED."""
    return geometric_mean([a["overhead"] or FAILED for a in answers])


def bookkeeping(answers: Sequence[dict]) -> float:
    """Return the median share of searching and planning in the baseline's time."""
    shares = [(a["search_ns"] + a["planning_ns"]) / a["baseline_ns"] for a in answers
              if a["overhead"] is not None and a["baseline_ns"] > 0]
    return statistics.median(shares) if shares else math.nan


def summary(answers: Sequence[dict]) -> str:
    """Return tables in Markdown, one for each memory model and iteration."""
    lines = [f"Failures count as {FAILED:g}; points that no policy runs are left out."]
    for (memory, iteration), group in by_setting(answers).items():
        policies = by_policy(group)
        common = set.intersection(*({(a["trace"], a["ratio"]) for a in found
                                     if a["overhead"] is not None} for found in policies.values()))
        points = len({(a["trace"], a["ratio"]) for a in group})
        lines += ["", f"## {memory}, iteration {iteration}: {points} points, "
                      f"{len(common)} that all policies run", "",
                  "| policy | mean overhead, failures capped | failures | mean where all run | "
                  "search and planning, median share |", "| --- | --- | --- | --- | --- |"]
        for policy, found in sorted(policies.items(), key=lambda item: capped(item[1])):
            failures = sum(a["overhead"] is None for a in found)
            where_all = geometric_mean([a["overhead"] for a in found
                                        if (a["trace"], a["ratio"]) in common])
            lines.append(f"| {policy} | {capped(found):.3f} | {failures} | {where_all:.3f} | "
                         f"{bookkeeping(found):.2%} |")
    return "\n".join(lines) + "\n"


def plots(answers: Sequence[dict]) -> Iterator[tuple[str, str]]:
    """Yield a name and an SVG picture for each setting: mean overhead, capped, over the ratio."""
    for (memory, iteration), group in by_setting(answers).items():
        curves = {}
        for policy, found in by_policy(group).items():
            ratios = sorted({a["ratio"] for a in found})
            curves[policy] = [(ratio, capped([a for a in found if a["ratio"] == ratio]))
                              for ratio in ratios]
        title = f"{memory}, iteration {iteration}: mean overhead (failures: {FAILED:g})"
        yield f"{memory}-{iteration}", draw(curves, title)
