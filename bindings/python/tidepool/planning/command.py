"""`tidepool plan`: finds plans for the steps of a trace, and writes them into a file."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..probe._replay import PROGRAM
from ..settings import _places, _sizes
from . import energy, plan_file
from .graph import Graph, GraphError, graphs_of
from .solution import Limits, Solution

EPILOG = """\
example:
  tidepool run --trace out.jsonl.gz --trace-steps 3 -- python train.py
  tidepool plan out.jsonl.gz --budget 4GiB -o train.plan
  tidepool run --budget 4GiB --plan train.plan -- python train.py

Solvers:
  search  the search that a running job makes
  gaps    what leaves between which uses, by annealing in a model without pages
  cp-sat  retention intervals (Moccasin), by OR-Tools: pip install ortools
  milp    Checkmate's program, with POET's paging, by HiGHS: pip install highspy

With --energy, gaps and milp bound the time or the energy of a step, and make the other small.

Printed are, as multiples of the time of a step without a budget: what the solver's schedule takes
in its own model of memory, and a bound below which none goes there; and what the plan takes when
it is followed in simulation, in memory with pages.

Exit status: 0; 1 if there is no plan.
"""
SOLVERS = ("search", "gaps", "cp-sat", "milp")
_PACKAGES = {"cp-sat": "ortools", "milp": "highspy"}
# The first iteration shows the step, and the last two follow the plan.
_SECONDS, _GAPS_SECONDS = 60, 10  # for a step
_ATTEMPTS = 4  # to keep the bounds when the plan is followed
_MARGIN = 0.001
_PEAK = 10**6  # bytes that stand for the step's peak, of which shares are taken
_FOLLOWED = ("--policy", "default", "--iterations", "3")


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
    parser.add_argument("--seconds", type=float, metavar="N",
                        help="the most that a solver takes for a step (default: 60, gaps: 10)")
    parser.add_argument("--energy", type=Path, metavar="FILE",
                        help="a table of what operators take in energy (gaps, milp)")
    parser.add_argument("--least", choices=("time", "energy"), default="time",
                        help="with --energy: what is made small (default: time)")
    for name in ("time", "energy"):
        parser.add_argument(f"--most-{name}", type=float, metavar="R",
                            help=f"with --energy: the most {name}, as a multiple of what the step "
                            "takes without a budget")
    parser.add_argument("--tier", metavar="SIZE@SPEED",
                        help="a second place for contents, behind a link of so many GB/s each way, "
                        "such as 64GiB@25 (milp)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE",
                        help="the plan file")


def main(parsed: argparse.Namespace) -> int:
    """Find the plans; return the exit status."""
    try:
        if problem := _places.obstacle(parsed.output):
            raise _Failure(f"{parsed.output}: {problem}")
        if not plan_file.may_replace(parsed.output):
            raise _Failure(f"{parsed.output}: exists and is no plan file")
        if not os.access(parsed.output.parent, os.W_OK | os.X_OK):
            raise _Failure(f"{parsed.output}: cannot write there")
        _check(parsed)
        if parsed.seconds is None:
            parsed.seconds = _GAPS_SECONDS if parsed.solver == "gaps" else _SECONDS
        parsed.output.write_text(_planned(parsed, _budget(parsed.budget)))
        print(f"wrote {parsed.output}")
    except (GraphError, OSError, _Failure) as error:
        print(f"tidepool plan: {error}", file=sys.stderr)
        return 1
    return 0


def _planned(parsed: argparse.Namespace, budget: list[str]) -> str:
    """Return the text of a plan file that keeps its bounds when it is followed."""
    aim = argparse.Namespace(**vars(parsed))  # its bounds may be lower than those to be kept
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(_ATTEMPTS):
            draft = Path(folder) / "plan"
            if parsed.solver == SOLVERS[0]:
                _replay(parsed.trace, *budget, "--write-plan", str(draft))
            else:
                heading, graphs = graphs_of(parsed.trace, [*budget, *_effort(parsed), *_goal(aim)])
                draft.write_text(_solved(aim, heading, graphs))
            over = _over_bounds(parsed, _follow(parsed, budget, draft))
            if not over:
                return draft.read_text()
            # Pages and evictions by price take more than the model says: the next aims lower.
            for name, excess in over.items():
                setattr(aim, name, getattr(aim, name) - excess - _MARGIN)
    raise _Failure("no plan keeps its bounds when it is followed")


def _over_bounds(parsed: argparse.Namespace, taken: dict[str, float]) -> dict[str, float]:
    """Return by how much the followed plan is above its bounds."""
    return {name: price - getattr(parsed, name) for name, price in taken.items()
            if getattr(parsed, name) is not None and price > getattr(parsed, name)}


def _check(parsed: argparse.Namespace) -> None:
    bounded = (parsed.least == "energy" or parsed.most_time is not None
               or parsed.most_energy is not None)
    if parsed.energy is None and bounded:
        raise _Failure("--least, --most-time and --most-energy need a table: --energy FILE")
    if parsed.energy is not None and parsed.solver not in ("gaps", "milp"):
        raise _Failure(f"the solver {parsed.solver} knows no energy: expected gaps or milp")
    if parsed.seconds is not None and parsed.solver == SOLVERS[0]:
        raise _Failure(f"the solver {parsed.solver} takes no --seconds: expected gaps, cp-sat or "
                       "milp")
    if parsed.seconds is not None and not 0 < parsed.seconds < float("inf"):
        raise _Failure(f"--seconds {parsed.seconds:g}: expected more than 0")
    if parsed.tier is not None and parsed.solver != "milp":
        raise _Failure(f"the solver {parsed.solver} knows no tier: expected milp")
    _limits(parsed, 0)


def _effort(parsed: argparse.Namespace) -> list[str]:
    return ["--graph-seconds", str(parsed.seconds)] if parsed.solver == "gaps" else []


def _goal(parsed: argparse.Namespace) -> list[str]:
    if parsed.energy is None:
        return []
    options = ["--energy", str(parsed.energy), "--least", parsed.least]
    for name, most in (("--most-time", parsed.most_time), ("--most-energy", parsed.most_energy)):
        options += [name, f"{most:g}"] if most is not None else []
    return options


def _limits(parsed: argparse.Namespace, joules_per_byte: float) -> Limits:
    limits = Limits(parsed.least == "energy", parsed.most_time, parsed.most_energy)
    if parsed.tier is None:
        return limits
    size, _, speed = parsed.tier.partition("@")
    try:
        gb_per_second = float(speed)
        if not 0 < gb_per_second < math.inf:
            raise ValueError(speed)
        return replace(limits, tier_bytes=_sizes.parse_size(size), tier_ns_a_byte=1 / gb_per_second,
                       tier_nj_a_byte=joules_per_byte * 1e9)
    except ValueError:
        raise _Failure(f"--tier {parsed.tier!r}: expected SIZE@SPEED, such as 64GiB@25") from None


def _budget(text: str) -> list[str]:
    try:
        size = _sizes.parse_positive_size(text, _PEAK)
    except ValueError as error:
        raise _Failure(f"--budget {text!r}: {error}") from None
    return (["--budget-ratio", f"{size / _PEAK:g}"] if text.strip().endswith("%")
            else ["--budget", str(size)])


def _replay(trace: Path, *options: str) -> str:
    done = subprocess.run([str(PROGRAM), str(trace), *options], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise _Failure(done.stderr.removeprefix("tidepool-replay: ").strip())
    return done.stdout


def _solver(name: str) -> Callable[[Graph, float, Limits], Solution]:
    if name == "cp-sat":
        from . import cp_sat
        return lambda graph, seconds, _: cp_sat.solve(graph, seconds)
    if name == "milp":
        from . import milp
        return milp.solve
    return _searched


def _searched(graph: Graph, seconds: float, limits: Limits) -> Solution:
    return Solution(list(graph.found) or None, graph.found_ns, None, graph.found_seconds,
                    proved=False, energy_nj=graph.found_nj)


def _solved(parsed: argparse.Namespace, heading: dict, graphs: list[Graph]) -> str:
    solve, limits = _solver(parsed.solver), _limits(parsed, heading["joules_per_byte"])
    steps = []
    for number, graph in enumerate(graphs, 1):
        try:
            found = solve(graph, parsed.seconds, limits)
        except ImportError:
            raise _Failure(f"the solver {parsed.solver} needs a package: pip install "
                           f"{_PACKAGES[parsed.solver]}") from None
        _show_solution(number, graph, found, limits)
        if found.choices is not None:
            steps.append(graph.planned(found.choices))
    if not steps:
        raise _Failure("the solver has found no schedule")
    return plan_file.text_of({"trace": heading["trace"], "solver": parsed.solver,
                              "budget_bytes": heading["budget_bytes"],
                              "alignment": heading["alignment"]}, steps)


def _show_solution(number: int, graph: Graph, found: Solution, limits: Limits) -> None:
    base_ns, base_nj = sum(graph.costs_ns) or 1, sum(graph.energies_nj)

    def share(price: float | None, base: float) -> str:
        return "none" if price is None else f"{price / base:.4f}"

    end = "proved" if found.proved else "not proved"
    bound = share(found.bound, base_nj if limits.least_energy else base_ns)
    print(f"step {number}, {graph.operators} operators: best {share(found.time_ns, base_ns)}, "
          f"bound {bound}, {end}, {found.seconds:.1f} s; own search in the same model "
          f"{share(graph.found_ns, base_ns)}")
    if base_nj:
        print(f"  energy: best {share(found.energy_nj, base_nj)}, own search "
              f"{share(graph.found_nj, base_nj)}; without a budget {base_nj / 1e9:.4g} J")


def _follow(parsed: argparse.Namespace, budget: list[str], plan: Path) -> dict[str, float]:
    """Follow the plan in simulation; print and return what it takes."""
    history = plan.with_name("history")
    options = [] if parsed.tier is None else ["--tier", parsed.tier]
    if parsed.energy is not None:
        options += ["--history", str(history)]
    text = _replay(parsed.trace, *budget, *options, *_FOLLOWED, "--plan", str(plan), "--json")
    found = json.loads(text.splitlines()[-1])
    if found["overhead"] is None:
        print(f"in simulation with pages: {found['reason']}")
        return {}
    taken = {"most_time": found["overhead"]}
    shown = f"{found['overhead']:.4f}, {found['evictions']} evictions"
    if parsed.energy is not None:
        with history.open() as lines:
            table = json.loads(parsed.energy.read_text("utf-8-sig"))
            taken["most_energy"] = energy.of_history(parsed.trace, lines, table)
        shown += f"; energy {taken['most_energy']:.4f}"
    print(f"in simulation with pages: {shown}")
    return taken
