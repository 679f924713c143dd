"""`tidepool plan`: finds plans for the steps of a trace, and writes them into a file."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ..probe._replay import PROGRAM
from ..settings import _sizes
from . import plan_file
from .graph import Graph, GraphError, graphs_of
from .solution import Solution

EPILOG = """\
example:
  tidepool run --trace out.jsonl.gz --trace-steps 3 -- python train.py
  tidepool plan out.jsonl.gz --budget 4GiB -o train.plan
  tidepool run --budget 4GiB --plan train.plan -- python train.py

Solvers:
  search  the search that a running job makes
  gaps    what leaves between which uses, by annealing in a model without pages
  cp-sat  retention intervals (Moccasin), by OR-Tools: pip install ortools

Printed are, as multiples of the time of a step without a budget: what the solver's schedule takes
in its own model of memory, and a bound below which none goes there; and what the plan takes when
it is followed in simulation, in memory with pages.

Exit status: 0; 1 if there is no plan.
"""
SOLVERS = ("search", "gaps", "cp-sat")
_PACKAGES = {"cp-sat": "ortools"}
_ITERATIONS = 3  # the first shows the step, and the last two follow the plan


class _Failure(Exception):
    """There is no plan; the message says why."""


def add_parser(commands, shape) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "plan", help="find plans for a job's recorded steps", formatter_class=shape,
        allow_abbrev=False, usage="tidepool plan TRACE --budget SIZE [options] -o FILE",
        description="Find plans for the steps of a trace.", epilog=EPILOG)
    parser.add_argument("trace", type=Path, metavar="TRACE", help="of `tidepool run --trace`")
    parser.add_argument("--budget", required=True, metavar="SIZE",
                        help="8GiB, 8GB, plain bytes, or 50%% of the step's peak")
    parser.add_argument("--solver", choices=SOLVERS, default=SOLVERS[0])
    parser.add_argument("--seconds", type=float, default=60, metavar="N",
                        help="the most that a solver takes for a step (default: 60)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE",
                        help="the plan file")


def main(parsed: argparse.Namespace) -> int:
    """Find the plans; return the exit status."""
    try:
        if not plan_file.may_replace(parsed.output):
            raise _Failure(f"{parsed.output}: exists and is no plan file")
        budget = _budget(parsed.budget)
        if parsed.solver == SOLVERS[0]:
            _replay(parsed.trace, *budget, "--write-plan", str(parsed.output))
        else:
            parsed.output.write_text(_solved(parsed, budget))
        _show(parsed.trace, budget, parsed.output)
    except (GraphError, OSError, _Failure) as error:
        print(f"tidepool plan: {error}", file=sys.stderr)
        return 1
    return 0


def _budget(text: str) -> list[str]:
    try:
        if text.endswith("%"):
            return ["--budget-ratio", str(float(text[:-1]) / 100)]
        return ["--budget", str(_sizes.parse_size(text))]
    except ValueError as error:
        raise _Failure(f"--budget {text!r}: {error}") from None


def _replay(trace: Path, *options: str) -> str:
    done = subprocess.run([str(PROGRAM), str(trace), *options], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise _Failure(done.stderr.removeprefix("tidepool-replay: ").strip())
    return done.stdout


def _solver(name: str) -> Callable[[Graph, float], Solution]:
    if name == "cp-sat":
        from . import cp_sat
        return cp_sat.solve
    return _searched


def _searched(graph: Graph, seconds: float) -> Solution:
    return Solution(list(graph.found) or None, graph.found_ns, None, graph.found_seconds,
                    proved=False)


def _solved(parsed: argparse.Namespace, budget: list[str]) -> str:
    heading, graphs = graphs_of(parsed.trace, budget)
    solve = _solver(parsed.solver)
    steps = []
    for number, graph in enumerate(graphs, 1):
        try:
            found = solve(graph, parsed.seconds)
        except ImportError:
            raise _Failure(f"the solver {parsed.solver} needs a package: pip install "
                           f"{_PACKAGES[parsed.solver]}") from None
        _show_solution(number, graph, found)
        if found.choices is not None:
            steps.append(graph.planned(found.choices))
    if not steps:
        raise _Failure("the solver has found no schedule")
    return plan_file.text_of({"trace": heading["trace"], "solver": parsed.solver,
                              "budget_bytes": heading["budget_bytes"],
                              "alignment": heading["alignment"]}, steps)


def _show_solution(number: int, graph: Graph, found: Solution) -> None:
    base = sum(graph.costs_ns) or 1

    def share(time_ns: float | None) -> str:
        return "none" if time_ns is None else f"{time_ns / base:.4f}"

    end = "proved" if found.proved else "not proved"
    print(f"step {number}, {len(graph.costs_ns)} operators: best {share(found.time_ns)}, bound "
          f"{share(found.bound_ns)}, {end}, {found.seconds:.1f} s; own search in the same model "
          f"{share(graph.found_ns)}")


def _show(trace: Path, budget: list[str], plan: Path) -> None:
    text = _replay(trace, *budget, "--policy", "default", "--iterations", str(_ITERATIONS),
                   "--plan", str(plan), "--json")
    found = json.loads(text.splitlines()[-1])
    if found["overhead"] is None:
        print(f"in simulation with pages: {found['reason']}")
    else:
        print(f"in simulation with pages: {found['overhead']:.4f}, {found['evictions']} evictions")
    print(f"wrote {plan}")
