"""What comparisons of ways on a GPU's traces share: each question asked once, ways side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import measure
from policy_summary import FAILED

Row = dict[str, float]  # an overhead for each way, FAILED at most


def trace_of(network: str) -> Path:
    return measure.ROOT / "bench" / "traces" / "gpu" / f"{network}.jsonl.gz"


def overheads(points: Sequence[Any], overhead: Callable[[Any], float | None],
              jobs: int) -> dict[Any, float | None]:
    """Return the overhead of each point, None if it fails.

    Args:
        points: what is asked; `asked()` of one is the point with the same answer that is run.
        overhead: runs a point; called on `jobs` threads, once for all points with its answer.
        jobs: how many run at a time.
    """
    asked = list(dict.fromkeys(point.asked() for point in points))
    with ThreadPoolExecutor(jobs) as pool:
        found = dict(zip(asked, pool.map(overhead, asked), strict=True))
    return {point: found[point.asked()] for point in points}


def capped(overhead: float | None) -> float:
    """Return an overhead as it counts: FAILED at most, and where there is none."""
    return FAILED if overhead is None else min(overhead, FAILED)


def side_by_side(found: Iterable[tuple[Any, str, float | None]]) -> dict[Any, Row]:
    """Return by key the ways' overheads, of the keys that any way runs.

    Args:
        found: key, way and overhead of each point, None if it fails.
    """
    rows: dict[Any, Row] = defaultdict(dict)
    for key, way, value in found:
        rows[key][way] = capped(value)
    return {key: row for key, row in rows.items() if min(row.values()) < FAILED}
