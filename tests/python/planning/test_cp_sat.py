"""The solver cp-sat against all choices of small steps."""

import pytest
from small_graphs import chain
from tidepool.planning.graph import KEPT

pytest.importorskip("ortools")

from tidepool.planning import cp_sat


def test_nothing_is_made_again_where_all_fits():
    graph = chain(5, 600, [10, 20, 30, 40, 50])
    found = cp_sat.solve(graph, 20, workers=1)
    assert found.proved
    assert found.time_ns == found.bound == sum(graph.costs_ns)
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
