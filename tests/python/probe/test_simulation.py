"""Budgets that are simulated: what is asked of tidepool-replay, and how the least is found."""

import json
import sys
from pathlib import Path

import pytest
from tidepool.probe import _simulation
from tidepool.probe._simulation import Link, Point, Simulation, least_budget

# Stands in for tidepool-replay: runs where a trace says, but for a hole; notes what it is asked.
REPLAY = """#!{python}
import json, sys
arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
trace = json.load(open(sys.argv[1]))
if "broken" in trace:
    sys.exit("broken trace")
budget = int(arguments.get("--budget", trace["peak"]))
runs = budget >= trace["needs"] and not 600 <= budget < 650
print(json.dumps({{"status": "ok" if runs else "out_of_memory", "budget_bytes": budget,
                   "overhead": trace["peak"] / max(budget, 1) if runs else None, "evictions": 8,
                   "operators_replayed": 12, "peak_bytes": budget - 1,
                   "stored_bytes": 6, "loaded_bytes": 4, "exposed_ns": 20}}))
"""


@pytest.fixture
def simulation(monkeypatch, tmp_path):
    """Return a simulation of traces with these peaks and needs."""
    program = tmp_path / "replay"
    program.write_text(REPLAY.format(python=sys.executable, log=str(tmp_path / "log")))
    program.chmod(0o755)
    monkeypatch.setattr(_simulation, "PROGRAM", program)

    def make(*traces, steps=2, **options):
        paths = []
        for number, trace in enumerate(traces):
            paths.append(tmp_path / f"{number}.jsonl")
            paths[-1].write_text(json.dumps(trace))
        return Simulation(paths, steps, **options)

    make.log = lambda: list(map(json.loads, (tmp_path / "log").read_text().splitlines()))
    return make


def test_all_processes_have_to_run_and_the_slowest_counts(simulation):
    made = simulation({"peak": 1000, "needs": 100}, {"peak": 500, "needs": 300},
                      {"peak": 0, "needs": 0})
    assert made.peak_bytes == 1000
    assert made.at([400, 200]) == [Point(400, True, 2.5, 8, 12, 399, 10, 20), Point(200, False)]
    asked = simulation.log()
    assert asked[0][-2:] == ["--iterations", "4"] and "default" in asked[0]
    assert len(asked) == 3 + 4  # the process that computes nothing is asked once
    made.at([200, 400])
    assert len(simulation.log()) == len(asked)  # what is known is not simulated again


def test_where_contents_may_go_besides_is_said(simulation):
    simulation({"peak": 1000, "needs": 100}, link=Link(5, 2.5e9, runs_beside=True)).at([400])
    for asked in simulation.log():
        place = asked.index("--tier")
        assert asked[place:place + 4] == ["--tier", "5@2.5000", "--beside", "yes"]


def test_a_trace_of_one_step_is_repeated_until_there_is_a_plan(simulation):
    simulation({"peak": 1000, "needs": 100}, steps=1)
    assert simulation.log()[0][-1] == "8"


def test_the_least_budget_is_found_below_holes(simulation):
    said = []
    made = simulation({"peak": 1000, "needs": 567},
                      progress=lambda done, of: said.append((done, of)))
    found = least_budget(made, lambda point: point.runs, 5, [100, 610, 700, 1000])
    assert 567 <= found.budget_bytes < 572
    assert said[:4] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    slow = least_budget(made, lambda point: (point.overhead or 9) <= 1.25, 5, [700, 1000])
    assert 800 <= slow.budget_bytes < 805
    assert least_budget(made, lambda point: False, 5, [700, 1000]) is None


def test_what_cannot_be_simulated_is_said(simulation, monkeypatch):
    with pytest.raises(_simulation.SimulationError, match="broken trace"):
        simulation({"broken": True})
    with pytest.raises(_simulation.SimulationError, match="no operators"):
        simulation({"peak": 0, "needs": 0})
    monkeypatch.setattr(_simulation, "PROGRAM", Path("/nowhere/replay"))
    with pytest.raises(_simulation.SimulationError, match="cannot start /nowhere/replay"):
        simulation({"peak": 1, "needs": 1})
