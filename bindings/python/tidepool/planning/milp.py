"""The solver milp: what is there and what is made in each stage, after Checkmate and POET.

A stage is an operator of the step that makes or uses a value. In stage t, S[t, v] says whether
value v is there at its beginning, R[t, v] whether it is made in it: again before the operator runs,
in the order of first makings, or by the operator itself. The rows are those of Checkmate (Jain et
al., MLSys 2020, eq. 1 and 4 to 7): what is read is there or made, nothing appears from nowhere, and
the bytes after each making stay within the budget, where F[t, u, v] says that u is given up once v
is made of it. With a tier there are POET's (Patil et al., ICML 2022): a value may be written to the
tier, lie there, and be read back; the time of both counts. The objective is time or energy, and
the other may have a bound.

Differences from Checkmate: F is continuous, which rows for each hazard make integral; workspaces
and bytes that are always there count; stages without a use of such a value are joined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .graph import DROPPED, DROPPED_AFTER, DROPPED_ONCE, KEPT, Graph, Stages
from .solution import Limits, Solution

_MOST_BINARIES = 400_000  # above, even the relaxation takes longer than anyone waits


class _Rows:
    """A linear program with integers, row by row."""

    def __init__(self) -> None:
        self.lower: list[float] = []  # by variable
        self.upper: list[float] = []
        self.integral: list[bool] = []
        self.rows: list[tuple[float, float, list[int], list[float]]] = []

    def binary(self) -> int:
        return self._variable(1, integral=True)

    def share(self) -> int:
        return self._variable(1, integral=False)

    def bytes(self) -> int:
        return self._variable(float("inf"), integral=False)

    def _variable(self, most: float, *, integral: bool) -> int:
        self.lower.append(0)
        self.upper.append(most)
        self.integral.append(integral)
        return len(self.lower) - 1

    def fix(self, variable: int, value: float) -> None:
        self.lower[variable] = self.upper[variable] = value

    def add(self, terms: Iterable[tuple[int, float]], least: float = float("-inf"),
            most: float = float("inf")) -> None:
        total: dict[int, float] = defaultdict(float)
        for variable, factor in terms:
            total[variable] += factor
        self.rows.append((least, most, list(total), list(total.values())))


@dataclass
class _Tier:
    """POET's variables, by stage and value: lies there, is written, is read."""

    there: dict[tuple[int, int], int]
    out: dict[tuple[int, int], int]
    back: dict[tuple[int, int], int]


class _Model:
    def __init__(self, graph: Graph, limits: Limits) -> None:
        self.graph, self.limits = graph, limits
        self.stages = Stages(graph)
        self.count = len(self.stages.fixed)
        self.made = [self.stages.of[value.made] for value in graph.values]
        self.order = sorted(range(len(graph.values)), key=lambda v: (self.made[v], v))
        self.unit = max(1.0, graph.budget / 1000)  # bytes: keeps the numbers near one
        self.rows = _Rows()
        self.there: dict[tuple[int, int], int] = {}
        self.makes: dict[tuple[int, int], int] = {}
        self.tier = _Tier({}, {}, {})
        self._rank = {v: rank for rank, v in enumerate(self.order)}
        self._users = defaultdict(list)  # by value: those made of it, in the order of making
        for v in self.order:
            for u in graph.values[v].inputs:
                self._users[u].append(v)
        self._read_in: list[set[int]] = [set() for _ in range(self.count)]
        for v, value in enumerate(graph.values):
            for use in value.uses:
                self._read_in[self.stages.of[use]].add(v)
        self._add_variables()
        self._keep_what_is_not_whole()
        for stage in range(self.count):
            self._read_what_is_there(stage)
            self._bound_memory(stage)
        self._bound_tier()

    def _add_variables(self) -> None:
        for v, value in enumerate(self.graph.values):
            for stage in range(self.made[v], self.count):
                self.makes[stage, v] = self.rows.binary()
                if stage + 1 < self.count or value.lives_on:
                    self.there[stage + 1, v] = self.rows.binary()
                if self.limits.tier_bytes:
                    self.tier.out[stage, v] = self.rows.binary()
                    self.tier.there[stage + 1, v] = self.rows.binary()
                    if stage > self.made[v]:
                        self.tier.back[stage, v] = self.rows.binary()
            self.rows.fix(self.makes[self.made[v], v], 1)
            if value.lives_on:
                self.rows.fix(self.there[self.count, v], 1)

    def _keep_what_is_not_whole(self) -> None:
        """A value that has yet to be written by its operators cannot be made again before."""
        leaves = {(gap.value, gap.begin, gap.end) for gap in self.graph.gaps}
        for v, value in enumerate(self.graph.values):
            begin = value.made
            for use in value.uses:
                if use > begin + 1 and (v, begin, use) not in leaves:
                    for stage in range(self.stages.of[begin] + 1, self.stages.of[use] + 1):
                        self.rows.fix(self.there[stage, v], 1)
                begin = use

    def _at_hand(self, stage: int, v: int) -> list[tuple[int, float]]:
        """Return the terms of: v is there at the stage's beginning, read back, or made in it."""
        return [(each[stage, v], 1.0) for each in (self.there, self.tier.back, self.makes)
                if (stage, v) in each]

    def _read_what_is_there(self, stage: int) -> None:
        for v in self.order:
            if self.made[v] > stage:
                break
            at_hand = self._at_hand(stage, v)
            if (stage + 1, v) in self.there:
                self.rows.add([(self.there[stage + 1, v], -1), *at_hand], least=0)
            if v in self._read_in[stage] and self.made[v] < stage:
                self.rows.add(at_hand, least=1)
            if self.made[v] < stage:
                for u in self.graph.values[v].inputs:
                    self.rows.add([(self.makes[stage, v], -1), *self._at_hand(stage, u)], least=0)
            self._page(stage, v, at_hand)

    def _page(self, stage: int, v: int, at_hand: list[tuple[int, float]]) -> None:
        if not self.limits.tier_bytes:
            return
        tier, before = self.tier, (stage, v) in self.tier.there
        lies = [(tier.there[stage, v], 1.0)] if before else []
        self.rows.add([(tier.there[stage + 1, v], -1), *lies, (tier.out[stage, v], 1)], least=0)
        self.rows.add([(tier.out[stage, v], -1), *at_hand], least=0)
        if (stage, v) in tier.back:
            self.rows.add([(tier.back[stage, v], -1), *lies], least=0)

    def _size(self, v: int) -> float:
        return self.graph.values[v].size / self.unit

    def _bound_memory(self, stage: int) -> None:
        """Add up the bytes after each making of the stage, in the order of makings."""
        most = (self.graph.budget - self.stages.fixed[stage]) / self.unit
        held = [(variable, self._size(v)) for each in (self.there, self.tier.back)
                for v in range(len(self.made)) if (variable := each.get((stage, v))) is not None]
        self.rows.add(held, most=most)
        for v in (v for v in self.order if self.made[v] < stage):
            after = self.rows.bytes()
            made = (self.makes[stage, v], self._size(v))
            self.rows.add([*held, made, (after, -1)], least=0, most=0)
            self.rows.add([(after, 1), (made[0], self.graph.values[v].temporary / self.unit)],
                          most=most)
            held = [(after, 1.0), *self._given_up(stage, v)]
        by_operator = [(self.makes[stage, v], self._size(v)) for v in self.order
                       if self.made[v] == stage]
        self.rows.add([*held, *by_operator], most=most)

    def _given_up(self, stage: int, v: int) -> list[tuple[int, float]]:
        """Return the terms of what is no longer there once v has been made."""
        terms = []
        for u in self.graph.values[v].inputs:
            if u in self._read_in[stage]:
                continue
            gone = self.rows.share()
            later = [w for w in self._users[u]
                     if self.made[w] < stage and self._rank[w] > self._rank[v]]
            hazards = [self.makes[stage, w] for w in later]
            if (stage + 1, u) in self.there:
                hazards.append(self.there[stage + 1, u])
            for hazard in hazards:
                self.rows.add([(gone, 1), (hazard, 1)], most=1)
            self.rows.add([(gone, 1), (self.makes[stage, v], -1)], most=0)
            terms.append((gone, -self._size(u)))
        return terms

    def _bound_tier(self) -> None:
        by_stage = defaultdict(list)
        for (stage, v), variable in self.tier.there.items():
            by_stage[stage].append((variable, self._size(v)))
        for terms in by_stage.values():
            self.rows.add(terms, most=self.limits.tier_bytes / self.unit)

    def prices(self, costs: Sequence[float], for_a_byte: float) -> list[tuple[int, float]]:
        """Return the terms of a price beyond the step's own."""
        terms = [(variable, costs[v]) for (stage, v), variable in self.makes.items()
                 if stage > self.made[v]]
        for each in (self.tier.out, self.tier.back):
            terms += [(variable, for_a_byte * self.graph.values[v].size)
                      for (_, v), variable in each.items()]
        return terms

    def choices(self, values: Sequence[float]) -> list[int]:
        """Return what a solution means for each gap."""
        found = []
        for gap in self.graph.gaps:
            begin, end = self.stages.of[gap.begin], self.stages.of[gap.end]
            kept = [values[self.there[stage, gap.value]] > 0.5
                    for stage in range(begin + 1, end + 1)]
            if all(kept):
                found.append(KEPT)
                continue
            last = begin + kept.index(False)  # the stage at whose beginning it is there still
            reader = self._reader(gap.value, last, values) if last > begin else None
            otherwise = DROPPED_ONCE if kept[-1] else DROPPED
            found.append(otherwise if reader is None else DROPPED_AFTER + reader)
        return found

    def _reader(self, value: int, stage: int, values: Sequence[float]) -> int | None:
        """Return the last value that is made again of one in a stage."""
        made = [user for user in self._users[value] if self.made[user] < stage
                and values[self.makes[stage, user]] > 0.5]
        return made[-1] if made else None


def _program(rows: _Rows, price: Mapping[int, float]):
    import highspy
    import numpy

    program = highspy.HighsLp()
    count = len(rows.lower)
    program.num_col_, program.num_row_ = count, len(rows.rows)
    program.col_cost_ = numpy.array([price.get(k, 0.0) for k in range(count)])
    program.col_lower_, program.col_upper_ = numpy.array(rows.lower, float), numpy.array(
        rows.upper, float)
    program.row_lower_ = numpy.array([least for least, *_ in rows.rows])
    program.row_upper_ = numpy.array([most for _, most, *_ in rows.rows])
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    sizes = [len(indices) for *_, indices, _ in rows.rows]
    program.a_matrix_.start_ = numpy.cumsum([0, *sizes])
    program.a_matrix_.index_ = numpy.array([k for *_, indices, _ in rows.rows for k in indices])
    program.a_matrix_.value_ = numpy.array([x for *_, factors in rows.rows for x in factors])
    program.integrality_ = [highspy.HighsVarType.kInteger if each
                            else highspy.HighsVarType.kContinuous for each in rows.integral]
    return program


def solve(graph: Graph, seconds: float, limits: Limits) -> Solution:
    """Return the best schedule found, and a bound.

    The bound is on the price of all schedules in the order of the recorded operators, in memory
    without pages.

    Raises:
        ImportError: highspy is not installed.
    """
    import highspy

    built = _Model(graph, limits)
    if sum(built.rows.integral) > _MOST_BINARIES:
        return Solution(None, None, None, 0, proved=False)
    times = _scaled(built.prices([value.cost_ns for value in graph.values],
                                 limits.tier_ns_a_byte), sum(graph.costs_ns))
    energies = _scaled(built.prices([value.energy_nj for value in graph.values],
                                    limits.tier_nj_a_byte), sum(graph.energies_nj))
    for terms, most in ((times, limits.most_time), (energies, limits.most_energy)):
        if most is not None:
            built.rows.add(terms, most=most - 1)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", float(seconds))
    solver.passModel(_program(built.rows, dict(energies if limits.least_energy else times)))
    solver.run()
    return _solution(built, solver, times, energies)


def _scaled(terms: list[tuple[int, float]], base: float) -> list[tuple[int, float]]:
    return [(variable, price / (base or 1)) for variable, price in terms]


def _solution(built: _Model, solver, times: list[tuple[int, float]],
              energies: list[tuple[int, float]]) -> Solution:
    import highspy

    graph, limits = built.graph, built.limits
    base_ns, base_nj = sum(graph.costs_ns), sum(graph.energies_nj)
    status, info, taken = solver.getModelStatus(), solver.getInfo(), solver.getRunTime()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solution(None, None, None, taken, proved=True)
    base = base_nj if limits.least_energy else base_ns
    bound = base * (1 + max(info.mip_dual_bound, 0))
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Solution(None, None, bound, taken, proved=False)
    values = list(solver.getSolution().col_value)

    def total(terms: list[tuple[int, float]], base: float) -> float:
        return base * (1 + sum(share * round(values[variable]) for variable, share in terms))

    return Solution(built.choices(values), total(times, base_ns), bound, taken,
                    status == highspy.HighsModelStatus.kOptimal, total(energies, base_nj))
