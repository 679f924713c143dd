"""The solver milp against what small steps must come to."""

import pytest
from small_graphs import chain
from tidepool.planning.graph import DROPPED, DROPPED_AFTER, KEPT, Gap, Graph, Value
from tidepool.planning.solution import Limits

pytest.importorskip("highspy")

from tidepool.planning import milp

COSTS = [10, 20, 30, 40, 50]


def dropped(graph, found):
    return [graph.gaps[k].value for k, choice in enumerate(found.choices) if choice != KEPT]


def test_nothing_is_made_again_where_all_fits():
    graph = chain(5, 600, COSTS)
    found = milp.solve(graph, 20, Limits())
    assert found.proved
    assert found.time_ns == pytest.approx(sum(graph.costs_ns))
    assert found.bound == pytest.approx(sum(graph.costs_ns))
    assert set(found.choices) == {KEPT}


def test_the_cheapest_results_are_made_again():
    graph = chain(5, 400, COSTS)
    found = milp.solve(graph, 20, Limits())
    assert found.proved
    assert dropped(graph, found) == [0]
    assert found.time_ns == pytest.approx(sum(graph.costs_ns) + 10)


@pytest.mark.parametrize("layers", [2, 4])
def test_a_budget_below_two_results_is_proved_to_be_too_small(layers):
    found = milp.solve(chain(layers, 150, [1] * layers), 20, Limits())
    assert found.proved
    assert found.choices is None


@pytest.mark.parametrize(("budget", "time"), [(300, 57), (400, 52), (500, 51)])
def test_what_is_made_again_has_to_fit_beside_what_it_is_made_of(budget, time):
    found = milp.solve(chain(6, budget, [5, 1, 4, 1, 5, 9]), 20, Limits())
    assert found.proved
    assert found.time_ns == pytest.approx(time)  # CP-SAT finds the same


def test_the_least_energy_is_found_within_a_bound_on_time():
    # The later a result, the more time it takes, and the less energy.
    graph = chain(5, 400, COSTS, energies=[50, 40, 30, 20, 10])
    base_ns, base_nj = sum(graph.costs_ns), sum(graph.energies_nj)
    prices = []
    for most in (1.04, 1.1, 1.3, None):
        found = milp.solve(graph, 20, Limits(least_energy=True, most_time=most))
        assert found.proved
        assert most is None or found.time_ns <= most * base_ns + 1e-6
        prices.append(found.energy_nj - base_nj)
    assert prices == sorted(prices, reverse=True)
    assert prices[0] == pytest.approx(50)
    assert prices[-1] < prices[0]
    assert milp.solve(graph, 20, Limits(most_time=1.01)).choices is None


def test_a_tier_takes_what_is_dearer_to_make_again():
    graph = chain(5, 400, [1000] * 5)
    base = sum(graph.costs_ns)
    paged = milp.solve(graph, 20, Limits(tier_bytes=1000, tier_ns_a_byte=1))
    assert paged.time_ns == pytest.approx(base + 200)  # out and back
    slow = milp.solve(graph, 20, Limits(tier_bytes=1000, tier_ns_a_byte=100))
    small = milp.solve(graph, 20, Limits(tier_bytes=99, tier_ns_a_byte=1))
    assert slow.time_ns == small.time_ns == pytest.approx(base + 1000)


def test_what_is_needed_to_make_another_value_leaves_after_that():
    """The second value has no room beside the fourth operator, the first none beside the sixth."""
    costs = (10, 20, 5, 5, 5, 5, 5)
    first = Value(50, costs[0], 0, 0, 0, 0, (), (1, 6), lives_on=False)
    second = Value(200, costs[1], 0, 0, 1, 1, (0,), (2, 4), lives_on=False)
    graph = Graph("", 7, 2, 450, costs, (0,) * 7, (0, 0, 0, 300, 0, 420, 0), (first, second),
                  (Gap(0, 1, 1, 6), Gap(1, 1, 2, 4)), None, None, (), 0)
    found = milp.solve(graph, 20, Limits())
    assert found.time_ns == pytest.approx(sum(costs) + costs[1] + costs[0])
    assert found.choices == [DROPPED_AFTER + 1, DROPPED]
    assert graph.planned(found.choices)["gaps"][:2] == [[0, 1, "drop-after", 1], [1, 1, "drop"]]
