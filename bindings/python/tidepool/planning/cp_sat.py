"""The solver cp-sat: retention intervals in OR-Tools' CP-SAT, after Moccasin (Bartan et al., 2023).

Each value that can be made again has an interval of memory for its first making, and optional ones
for further makings. The operators' order is the job's. What is made again at operator k is made
before it, in the stage of k: value v then has time k (k + 1) / 2 + rank of v, so that no two things
happen at once. What reads a value lies in one of its intervals. The sum of the bytes of intervals
and of what is there in any case stays within the budget, and the time of further makings is least.

Differences from Moccasin: stages without a use of such a value are joined; workspaces and the bytes
that are always there count; bytes are rounded up to a 20,000th of the budget.
"""

from __future__ import annotations

from .graph import DROPPED, DROPPED_ONCE, KEPT, Graph, Stages
from .solution import Solution

_UNITS = 20_000


def _time(stage: int, rank: int) -> int:
    return stage * (stage + 1) // 2 + rank


class _Model:
    def __init__(self, graph: Graph, copies: int) -> None:
        from ortools.sat.python import cp_model

        self._graph, self._stages = graph, Stages(graph)
        self._unit = max(1, graph.budget // _UNITS)
        self._horizon = _time(len(self._stages.fixed), 0)
        self.model = cp_model.CpModel()
        self.copies = [self._first(k) for k in range(len(graph.values))]
        for again in range(1, copies):
            for k in range(len(graph.values)):
                self._add_copy(k, again)
        for k in range(len(graph.values)):
            self._read_by_operators(k)
            self._read_by_copies(k)
        self._bound_memory()
        self.model.minimize(sum(
            graph.values[k].cost_ns * present
            for k, all_copies in enumerate(self.copies) for _, _, present, _ in all_copies[1:]))

    def _stage(self, op: int) -> int:
        return self._stages.of[op]

    def _rank(self, k: int) -> int:
        return self._stage(self._graph.values[k].made)

    def _first(self, k: int) -> list[tuple]:
        """Return the first copy: its start, its end, whether it is there, and its interval."""
        made = self._rank(k)
        start = _time(made, made)
        end = self.model.new_int_var(start + 1, self._horizon, f"end {k}")
        interval = self.model.new_interval_var(start, end - start, end, f"copy {k} 0")
        return [(start, end, 1, interval)]

    def _add_copy(self, k: int, again: int) -> None:
        from ortools.sat.python import cp_model

        made, stages = self._rank(k), len(self._stages.fixed)
        if made + 1 >= stages:
            return
        times = [_time(stage, made) for stage in range(made + 1, stages)]
        start = self.model.new_int_var_from_domain(cp_model.Domain.from_values(times),
                                                   f"start {k} {again}")
        end = self.model.new_int_var(times[0] + 1, self._horizon, f"end {k} {again}")
        present = self.model.new_bool_var(f"present {k} {again}")
        size = self.model.new_int_var(1, self._horizon, f"size {k} {again}")
        interval = self.model.new_optional_interval_var(start, size, end, present,
                                                        f"copy {k} {again}")
        _, end_before, present_before, _ = self.copies[k][-1]
        self.model.add(start >= end_before).only_enforce_if(present)
        if again > 1:
            self.model.add_implication(present, present_before)
        self.copies[k].append((start, end, present, interval))

    def _read(self, k: int, at, condition) -> None:
        """Say that value k is there at a time, if the condition holds (1: in any case)."""
        covers = []
        for start, end, present, _ in self.copies[k]:
            cover = self.model.new_bool_var("")
            if not isinstance(present, int):
                self.model.add_implication(cover, present)
                self.model.add(start < at).only_enforce_if(cover)
            self.model.add(end > at).only_enforce_if(cover)
            covers.append(cover)
        if isinstance(condition, int):
            self.model.add_bool_or(covers)
        else:
            self.model.add_bool_or([*covers, condition.negated()])

    def _read_by_operators(self, k: int) -> None:
        value = self._graph.values[k]
        for stage in sorted({self._stage(use) for use in value.uses}):
            if stage > self._rank(k):
                self._read(k, _time(stage, stage), 1)
        if value.lives_on:  # what the next step needs is there at the end
            self._read(k, self._horizon - 1, 1)

    def _read_by_copies(self, k: int) -> None:
        for start, _, present, _ in self.copies[k][1:]:
            for needed in self._graph.values[k].inputs:
                self._read(needed, start, present)

    def _bound_memory(self) -> None:
        intervals, bytes_of = [], []

        def add(interval, size: int) -> None:
            if size:
                intervals.append(interval)
                bytes_of.append(-(-size // self._unit))

        for k, all_copies in enumerate(self.copies):
            value = self._graph.values[k]
            for start, _, present, interval in all_copies:
                add(interval, value.size)
                if value.temporary and not isinstance(present, int):
                    add(self.model.new_optional_fixed_size_interval_var(start, 1, present, ""),
                        value.temporary)
        for stage, fixed in enumerate(self._stages.fixed):
            add(self.model.new_fixed_size_interval_var(_time(stage, 0), stage + 1, ""), fixed)
        self.model.add_cumulative(intervals, bytes_of, self._graph.budget // self._unit)

    def choices(self, value_of) -> list[int]:
        """Return what the solved intervals mean for each gap."""
        found = []
        for gap in self._graph.gaps:
            begin, end = (_time(stage, stage) for stage in
                          (self._stage(gap.begin), self._stage(gap.end)))
            choice = DROPPED
            for start, last, present, _ in self.copies[gap.value]:
                if not value_of(present) or value_of(last) <= end:
                    continue
                if value_of(start) <= begin:
                    choice = KEPT
                elif value_of(start) < _time(self._stage(gap.end), 0):
                    choice = DROPPED_ONCE
            found.append(choice)
        return found


def solve(graph: Graph, seconds: float, copies: int = 2, workers: int = 0) -> Solution:
    """Return the best schedule found, and a bound.

    The bound is on the time of all schedules with at most so many `copies` of each value, in the
    order of the recorded operators, in memory without pages.

    Raises:
        ImportError: OR-Tools is not installed.
    """
    from ortools.sat.python import cp_model

    built = _Model(graph, copies)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    if workers:
        solver.parameters.num_workers = workers
    status = solver.solve(built.model)
    base = sum(graph.costs_ns)
    if status == cp_model.INFEASIBLE:
        return Solution(None, None, None, solver.wall_time, proved=True)
    bound = base + solver.best_objective_bound
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solution(None, None, bound, solver.wall_time, proved=False)
    return Solution(built.choices(lambda each: each if isinstance(each, int)
                                  else solver.value(each)),
                    base + solver.objective_value, bound, solver.wall_time,
                    proved=status == cp_model.OPTIMAL)
