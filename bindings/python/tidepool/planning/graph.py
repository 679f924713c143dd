"""A recorded step as solvers see it: results that can be made again, and the gaps between uses.

tidepool-replay says what they are; remat/plan/search/gap_model.h explains the model. What solvers
decide is, for each gap, whether the result stays.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..probe._replay import PROGRAM

KEPT, DROPPED, DROPPED_ONCE, DROPPED_AFTER = range(4)


class GraphError(RuntimeError):
    """tidepool-replay cannot make graphs of a trace; the message says why."""


@dataclass(frozen=True)
class Value:
    """A result that can be made again, and what that costs."""

    size: int
    cost_ns: int
    energy_nj: int  # likewise; 0 without a table of energy
    temporary: int  # bytes that making it takes besides
    made: int  # the operator
    result: int  # its number in a plan
    inputs: tuple[int, ...]  # values
    uses: tuple[int, ...]  # operators
    lives_on: bool  # after the step


@dataclass(frozen=True)
class Gap:
    """The time between two operators that use a value."""

    value: int
    number: int  # among the gaps of its value
    begin: int
    end: int


@dataclass(frozen=True)
class Graph:
    """One step, and what the own search has found for it."""

    digest: str
    operators: int  # that the digest counts
    outputs: int  # how many results it has
    budget: int
    costs_ns: tuple[int, ...]  # by operator
    energies_nj: tuple[int, ...]  # by operator
    fixed: tuple[int, ...]  # by operator: bytes that are there whatever is decided
    values: tuple[Value, ...]
    gaps: tuple[Gap, ...]
    found_ns: int | None  # what the step takes with the search's choices; None: it found none
    found_nj: int | None
    found: tuple[int, ...]  # these, by gap
    found_seconds: float  # of the search

    def planned(self, choices: Sequence[int]) -> dict:
        """Return the plan file's entry of such choices.

        A choice of DROPPED_AFTER and the number of a value: the gap's value leaves after that one
        has been made again of it.
        """
        dropped = [[self.values[gap.value].result, gap.number, *self._way(choice)]
                   for gap, choice in zip(self.gaps, choices, strict=True) if choice != KEPT]
        dropped += [[value.result, len(value.uses), "drop"] for value in self.values
                    if not value.lives_on]
        return {"digest": self.digest, "operators": self.operators, "outputs": self.outputs,
                "policy": "needed-cost", "use_share": 0.5, "preference": "cheapest",
                "gaps": dropped}

    def _way(self, choice: int) -> list:
        if choice < DROPPED_AFTER:
            return ["drop-once" if choice == DROPPED_ONCE else "drop"]
        return ["drop-after", self.values[choice - DROPPED_AFTER].result]


class Stages:
    """Operators joined into stages: only those that make or use a value need one of their own."""

    def __init__(self, graph: Graph) -> None:
        busy = {value.made for value in graph.values}
        busy.update(use for value in graph.values for use in value.uses)
        self.of: list[int] = []  # by operator
        self.fixed: list[int] = []  # by stage: bytes that are there in any case
        for op, fixed in enumerate(graph.fixed):
            joins = self.fixed and op not in busy and op - 1 not in busy
            if not joins:
                self.fixed.append(0)
            self.of.append(len(self.fixed) - 1)
            self.fixed[-1] = max(self.fixed[-1], fixed)


def graphs_of(trace: Path, budget: Sequence[str]) -> tuple[dict, list[Graph]]:
    """Return the heading of a plan file for a trace, and its steps.

    Args:
        budget: the options of tidepool-replay that say which.

    Raises:
        GraphError: the trace cannot be read, or there is no such budget.
    """
    done = subprocess.run([str(PROGRAM), str(trace), *budget, "--graph"], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise GraphError(done.stderr.strip())
    heading, *steps = (json.loads(line) for line in done.stdout.splitlines())
    return heading, [_graph(step, heading["budget_bytes"]) for step in steps]


def _graph(step: dict, budget: int) -> Graph:
    values = tuple(
        Value(size, cost_ns, energy_nj, temporary, made, result, tuple(inputs), tuple(uses),
              lives_on)
        for size, cost_ns, energy_nj, temporary, made, result, inputs, uses, lives_on
        in step["values"])
    return Graph(step["digest"], step["operators"], step["outputs"], budget,
                 tuple(step["costs_ns"]), tuple(step["energies_nj"]), tuple(step["fixed"]), values,
                 tuple(Gap(*each) for each in step["gaps"]), step["found_ns"], step["found_nj"],
                 tuple(step["found"]), step["search_ns"] / 1e9)
