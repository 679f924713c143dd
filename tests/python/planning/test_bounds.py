"""Bounds on time and energy hold for what is written, also where the model says less."""

import argparse
import json
from pathlib import Path

import pytest
from small_graphs import chain
from tidepool.planning import command, graph


@pytest.fixture
def parsed(tmp_path):
    """Return a command line that bounds time and energy."""
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(), argparse.HelpFormatter)
    (tmp_path / "trace").write_text('{"op":"a","ns":100}\n')
    (tmp_path / "energy").write_text('{"watts":2}')
    return parser.parse_args(
        ["plan", str(tmp_path / "trace"), "--budget", "1MiB", "--solver", "gaps", "--energy",
         str(tmp_path / "energy"), "--most-time", "1.2", "-o", str(tmp_path / "plan")])


def test_the_search_of_gaps_takes_as_long_as_is_said(monkeypatch, parsed):
    follow_with(monkeypatch, 0)
    seconds, of_stub = [], command.graphs_of

    def graphs_of(trace, options):
        seconds.append(float(options[options.index("--graph-seconds") + 1]))
        return of_stub(trace, options)

    monkeypatch.setattr(command, "graphs_of", graphs_of)
    for parsed.seconds in (None, 3.5):
        assert command.main(parsed) == 0
    assert seconds == [10, 3.5]


@pytest.mark.parametrize("wrong, part", [
    ({"seconds": -1.0}, "--seconds -1: expected more than 0"),
    ({"seconds": 5.0, "solver": "search", "energy": None, "most_time": None},
     "the solver search takes no --seconds"),
    ({"budget": "0%"}, "--budget '0%': a percentage must be above 0%"),
    ({"budget": "0"}, "--budget '0': expected more than zero bytes"),
    *(({"solver": "milp", "tier": f"1GiB@{speed}"}, "expected SIZE@SPEED")
      for speed in ("-1", "0", "nan", "inf", "fast")),
    ({"output": Path("/no/such/folder/plan")}, "cannot write there")])
def test_what_would_fail_later_is_refused_at_once(monkeypatch, parsed, capsys, wrong, part):
    monkeypatch.setattr(command, "graphs_of", lambda *_: pytest.fail("it was searched for"))
    vars(parsed).update(wrong)
    assert command.main(parsed) == 1
    assert part in capsys.readouterr().err


def follow_with(monkeypatch, beyond: float) -> list[float]:
    """Have plans take this much more than the bound they were looked for; return the bounds."""
    asked = []

    def graphs_of(trace, options):
        asked.append(float(options[options.index("--most-time") + 1]))
        step = chain(3, 600, [10, 20, 30])
        found = tuple(graph.KEPT for _ in step.gaps)
        return {"trace": "t", "budget_bytes": 600, "alignment": 1, "joules_per_byte": 0}, [
            argparse.Namespace(**vars(step) | {"found": found, "found_ns": 1, "found_nj": 1},
                               planned=step.planned)]

    def replay(trace, *options):
        Path(options[options.index("--history") + 1]).write_text("iteration 3\n0 replay 0\n")
        return json.dumps({"overhead": asked[-1] + beyond, "evictions": 1, "reason": None})

    monkeypatch.setattr(command, "graphs_of", graphs_of)
    monkeypatch.setattr(command, "_replay", replay)
    return asked


def test_a_plan_within_its_bounds_is_written(monkeypatch, parsed, capsys):
    asked = follow_with(monkeypatch, 0)
    assert command.main(parsed) == 0
    assert asked == [1.2]
    assert "energy 2.0000" in capsys.readouterr().out
    assert parsed.output.exists()


def test_a_plan_that_takes_more_is_looked_for_again_under_lower_bounds(monkeypatch, parsed):
    asked = follow_with(monkeypatch, 0.05)
    assert command.main(parsed) == 0
    assert asked[0] == 1.2
    assert asked[-1] + 0.05 <= 1.2
    assert parsed.output.exists()


def test_a_plan_that_never_keeps_its_bounds_is_not_written(monkeypatch, parsed, capsys):
    asked = follow_with(monkeypatch, 0.05)
    parsed.most_energy = 1.5  # what is replayed takes as much again
    assert command.main(parsed) == 1
    assert len(asked) == 4
    assert not parsed.output.exists()
    assert "no plan keeps its bounds" in capsys.readouterr().err


def test_bounds_need_a_table_and_a_solver_that_knows_them(parsed, capsys):
    parsed.solver = "search"
    assert command.main(parsed) == 1
    assert "knows no energy: expected gaps or milp" in capsys.readouterr().err
    parsed.solver, parsed.energy = "gaps", None
    assert command.main(parsed) == 1
    assert "need a table" in capsys.readouterr().err
