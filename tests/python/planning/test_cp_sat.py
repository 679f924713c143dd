"""The solver cp-sat against all choices of small steps."""

from itertools import pairwise

import pytest
from tidepool.planning.graph import KEPT, Gap, Graph, Value

pytest.importorskip("ortools")

from tidepool.planning import cp_sat


def chain(layers: int, budget: int, costs: list[int]) -> Graph:
    """Return a step of layers and their backward part, all results of 100 bytes.

    Operator k of the first makes value k of value k - 1; after them, operators read the values in
    reverse order.
    """
    ops = 2 * layers
    values = tuple(
        Value(100, costs[k], 0, k, k, (k - 1,) if k else (),
              tuple(sorted({k + 1 if k + 1 < layers else layers, ops - 1 - k} - {k})), False)
        for k in range(layers))
    gaps = tuple(Gap(k, number, begin, end) for k, value in enumerate(values)
                 for number, (begin, end) in enumerate(pairwise((k, *value.uses)))
                 if end > begin + 1)
    return Graph("0" * 16, layers, budget, tuple(costs) * 2, (0,) * ops, values, gaps, None, (), 0)


def test_nothing_is_made_again_where_all_fits():
    graph = chain(5, 600, [10, 20, 30, 40, 50])
    found = cp_sat.solve(graph, 20, workers=1)
    assert found.proved
    assert found.time_ns == found.bound_ns == sum(graph.costs_ns)
    assert set(found.choices) == {KEPT}


def test_the_cheapest_results_are_made_again():
    # Four of five fit, and one more while the next layer is computed.
    graph = chain(5, 400, [10, 20, 30, 40, 50])
    found = cp_sat.solve(graph, 20, workers=1)
    assert found.proved
    dropped = [graph.gaps[k].value for k, choice in enumerate(found.choices) if choice != KEPT]
    assert dropped == [0]
    assert found.time_ns == sum(graph.costs_ns) + 10
    assert graph.planned(found.choices)["gaps"][0][:2] == [0, 1]


def test_a_budget_below_two_results_is_proved_to_be_too_small():
    found = cp_sat.solve(chain(4, 150, [1, 1, 1, 1]), 20, workers=1)
    assert found.proved
    assert found.choices is None
