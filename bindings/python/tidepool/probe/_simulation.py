"""What budgets would cost a job, from its traces: tidepool-replay, asked for one budget at a time.

A job has a trace for each process and device. Each has the budget to itself, so the job runs under
a budget if all of them do, and is as slow as the slowest.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ._replay import PROGRAM

_STEPS = 8  # of the job that are simulated at least: a plan is found and in use by then
_LOOK_BELOW = (3, 6, 9, 12)  # percent: holes that have been seen are narrower


class SimulationError(Exception):
    """tidepool-replay cannot simulate this trace; the message says why."""


@dataclass(frozen=True)
class Point:
    """What one budget costs in simulation, a step."""

    budget_bytes: int
    runs: bool
    overhead: float | None = None  # compute of a step, divided by that without a budget
    evictions: int = 0
    replays: int = 0
    peak_bytes: int = 0
    copied_bytes: int = 0  # to where `offload` says, and back
    waited_ns: int = 0  # for these


@dataclass(frozen=True)
class Link:
    """Where contents may go by copies, and how fast."""

    capacity_bytes: int
    bytes_per_s: float  # each way
    runs_beside: bool  # transfers run while operators do

    def options(self) -> list[str]:
        """Return what tidepool-replay takes."""
        return ["--tier", f"{self.capacity_bytes}@{self.bytes_per_s / 1e9:.4f}",
                "--beside", "yes" if self.runs_beside else "no"]


class Simulation:
    """Simulates budgets of one job; keeps what it has found out."""

    def __init__(self, traces: Sequence[Path], steps: int,
                 progress: Callable[[int, int], None] = lambda done, of: None,
                 link: Link | None = None) -> None:
        """Take the traces, which have `steps` steps each.

        Args:
            progress: is called with how many of how many simulations asked for are done.
            link: where contents may go besides.

        Raises:
            SimulationError: there is no trace, or it cannot be read.
        """
        self._steps, self._progress = steps, progress
        self._tier = link.options() if link else []
        self._iterations = max(2, math.ceil(_STEPS / steps))
        self.points: dict[int, Point] = {}  # by budget
        ample = [(self._replay(trace, "--budget-ratio", "1"), trace) for trace in traces]
        # Helper processes, which import PyTorch and compute nothing, have traces without a peak.
        self._traces = [trace for found, trace in ample if found["budget_bytes"]]
        self.peak_bytes = max((found["budget_bytes"] for found, _ in ample), default=0)
        if not self.peak_bytes:
            raise SimulationError("the job's trace has no operators")

    def at(self, budgets: Sequence[int]) -> list[Point]:
        """Return what each budget costs, in order; those not known yet are simulated."""
        new = [budget for budget in dict.fromkeys(budgets) if budget not in self.points]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            try:
                for done, point in enumerate(pool.map(self._point, new), 1):
                    self.points[point.budget_bytes] = point
                    self._progress(done, len(new))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return [self.points[budget] for budget in budgets]

    def _point(self, budget: int) -> Point:
        found = [self._replay(trace, "--budget", str(budget)) for trace in self._traces]
        if any(each["status"] != "ok" for each in found):
            return Point(budget, runs=False)
        return Point(budget, True, max(each["overhead"] for each in found),
                     sum(each["evictions"] for each in found) // self._steps,
                     sum(each["operators_replayed"] for each in found) // self._steps,
                     max(each["peak_bytes"] for each in found),
                     sum(each["stored_bytes"] + each["loaded_bytes"]
                         for each in found) // self._steps,
                     sum(each["exposed_ns"] for each in found) // self._steps)

    def _replay(self, trace: Path, *budget: str) -> dict:
        command = [str(PROGRAM), str(trace), *budget, *self._tier, "--policy", "default", "--json",
                   "--jobs", "1", "--iterations", str(self._iterations)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise SimulationError(f"cannot start {PROGRAM}: {error.strerror}") from error
        lines = done.stdout.splitlines()
        if not lines:
            raise SimulationError(done.stderr.strip() or f"{PROGRAM.name} said nothing")
        return json.loads(lines[-1])


def least_budget(simulation: Simulation, fits: Callable[[Point], bool], step: int,
                 grid: Sequence[int]) -> Point | None:
    """Return the least budget that fits, to within `step` bytes; None if none of the grid does.

    Policies that decide as they go have holes, budgets that fail although a smaller one does not.
    So the search goes down from the least one of the grid that fits, whatever is above it, and
    looks on below what it finds.
    """
    budgets = sorted(grid)
    while True:
        simulation.at(budgets)
        known = sorted(simulation.points.values(), key=lambda point: point.budget_bytes)
        place = next((k for k, point in enumerate(known) if fits(point)), None)
        if place is None:
            return None
        best = known[place].budget_bytes
        below = known[place - 1].budget_bytes if place else 0
        if best - below > step:  # three at a time, as there is usually more than one processor
            budgets = sorted({below + (best - below) * k // 4 for k in (1, 2, 3)} - {below})
            continue
        lower = [best * (100 - share) // 100 for share in _LOOK_BELOW]
        budgets = sorted(budget for budget in lower if budget not in simulation.points)
        if not budgets:
            return known[place]
