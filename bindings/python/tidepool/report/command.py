"""`tidepool report`: from a trace to a page."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..probe._replay import PROGRAM
from ..probe._simulation import Point, Simulation, SimulationError
from ..settings import _places, _sizes
from . import history, page, recording, views
from .trace_reader import Trace, TraceError, cut_after_steps, read_trace

GRID = (100, 90, 80, 70, 60, 50, 45, 40, 35, 30, 25, 20)  # budgets of the curve, % of the peak
_SLOWDOWN = 1.10  # what the budget that is shown may cost, where none is asked for
_STEPS = 8  # of the job that are simulated at least: a plan is found and in use by then
_ENDINGS = re.compile(r"(\.jsonl)?(\.gz)?$|\.rec$")  # of traces' and recordings' names
_CURVE_EVENTS = 40_000  # of a long trace the curve is that of its first steps


def main(trace: Path, output: Path | None, budget: str | None) -> int:
    """Write the report; return the exit status."""
    try:
        if not trace.name:
            raise ValueError(f"{str(trace)!r}: expected a trace or a recording")
        output = output or trace.with_name(f"{_ENDINGS.sub('', trace.name) or 'job'}.html")
        _check(output, budget)
        recorded = recording.is_recording(trace)
        content = make_recorded(trace, budget, say) if recorded else make(trace, budget, say)
        text = page.html(content)
        output.write_text(text, encoding="utf-8")
    except (TraceError, SimulationError, history.SimulationFailed, OSError, ValueError) as error:
        print(f"tidepool report: {error}", file=sys.stderr)
        return 1
    say(f"{output}: {_sizes.format_size(len(text.encode()), exact=False)}")
    return 0


def _check(output: Path, budget: str | None) -> None:
    """Raise ValueError for what would be wrong after minutes only."""
    if problem := _places.obstacle(output):
        raise ValueError(f"-o {str(output)!r}: {problem}")
    if output.exists() and not _is_page(output):
        raise ValueError(f"-o {str(output)!r}: exists and is no page")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise ValueError(f"-o {str(output)!r}: cannot write there")
    if budget is not None:
        _size_of(budget, 1 << 40)


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(page.START)).decode(errors="replace") in ("", page.START)


def say(line: str) -> None:
    """Print a line on standard error."""
    print(f"tidepool report: {line}", file=sys.stderr, flush=True)


def make(path: Path, budget: str | None, say: Callable[[str], None]) -> dict:
    """Return what the page shows of a trace, ready for JSON.

    Raises:
        TraceError: it is none.
        SimulationError, SimulationFailed: it cannot be simulated, or not under this budget.
        ValueError: the budget is no size.
    """
    say(f"reading {path}")
    trace = read_trace(path)
    with tempfile.TemporaryDirectory(prefix="tidepool-report-") as folder:
        curve, steps = _curve(trace, Path(folder), say)
        chosen = _budget(budget, curve)
        say(f"simulating {_sizes.format_size(chosen, exact=False)}, step by step")
        iterations = max(1, -(-_STEPS // trace.steps))
        try:
            past = history.record(trace, path, chosen, iterations, Path(folder))
        except history.SimulationFailed as failure:
            raise history.SimulationFailed(
                f"under {_sizes.format_size(chosen, exact=False)} {failure}{_least(curve)}"
            ) from None
    say("drawing")
    return {"name": trace.name, "file": path.name, "device": trace.device, "steps": trace.steps,
            "events": trace.events, "operators": len(trace.operators), "program": PROGRAM.name,
            "storages": len(trace.storages), "peak": curve.peak_bytes, "budget": chosen,
            "overhead": past.overhead, "iterations": iterations,
            "moves": past.moves, "movedBytes": past.moved_bytes,
            "remappedBytes": past.remapped_bytes,
            "changes": len(past.times), "stepEnds": past.step_ends[:2000],
            "curve": [vars(point) for point in _points(curve)], "curveSteps": steps,
            "groups": [list(group) for group in past.groups], "places": trace.places,
            "details": views.details(trace, past), "views": _views(trace, past)}


def make_recorded(path: Path, budget: str | None, say: Callable[[str], None]) -> dict:
    """Return what the page shows of a recording, ready for JSON.

    Raises:
        TraceError: it cannot be read.
        ValueError: a budget was given: the job had its own.
    """
    if budget:
        raise ValueError(f"--budget {budget}: a recording shows the job as it ran; for other "
                         "budgets record a trace (tidepool run --trace)")
    say(f"reading {path}")
    work = recording.read_recording(path)
    past, trace = work.history, work.trace
    say("drawing")
    return {"name": trace.name, "file": path.name, "device": trace.device, "steps": trace.steps,
            "events": work.events, "operators": len(past.replay_calls), "program": "",
            "storages": len(trace.storages), "peak": work.peak_bytes,
            "budget": work.head.budget_bytes, "overhead": past.overhead, "iterations": 1,
            "moves": past.moves, "movedBytes": past.moved_bytes, "remappedBytes": 0,
            "changes": len(past.times), "stepEnds": past.step_ends[:2000],
            "curve": [], "curveSteps": trace.steps,
            "groups": [list(group) for group in past.groups], "places": [],
            "details": views.details(trace, past), "views": _views(trace, past),
            "recorded": {"lost": work.lost, "ended": work.head.ended,
                         "searchesNs": work.searches_ns, "budgets": work.budgets[:100],
                         "shortages": work.shortages[:100]}}


def _views(trace: Trace, past: history.History) -> list[dict]:
    spans = [("whole recording", 0, past.end_ns)]
    shown = views.step_to_show(past)
    if shown is not None:
        spans.append((f"step {shown + 1}", past.step_ends[shown - 1], past.step_ends[shown]))
    return [{"name": name, **views.view(trace, past, begin, end)} for name, begin, end in spans]


def _curve(trace: Trace, folder: Path, say: Callable[[str], None]) -> tuple[Simulation, int]:
    """Simulate budgets; of a long trace, its first steps. Return how many steps those are."""
    path, steps = trace.path, trace.steps
    if trace.events > _CURVE_EVENTS and steps > 2:
        steps = min(max(2, _CURVE_EVENTS * steps // trace.events), steps)
        path = folder / "first_steps.jsonl.gz"
        cut_after_steps(trace, steps, path)

    def progress(done: int, of: int) -> None:
        if done == of:
            say(f"{of} budgets simulated")

    simulation = Simulation([path], steps, progress=progress)
    simulation.at([simulation.peak_bytes * share // 100 for share in GRID])
    return simulation, steps


def _points(simulation: Simulation) -> list[Point]:
    return sorted(simulation.points.values(), key=lambda point: point.budget_bytes)


def _least(simulation: Simulation) -> str:
    runs = [point.budget_bytes for point in _points(simulation) if point.runs]
    if not runs:
        return ""
    return f"; the least budget tried that runs is {_sizes.format_size(runs[0], exact=False)}"


def _size_of(budget: str, peak_bytes: int) -> int:
    """Return the bytes of a size, or of a share of the peak; raise ValueError for neither."""
    try:
        return _sizes.parse_positive_size(budget, peak_bytes)
    except ValueError as error:
        raise ValueError(f"--budget {budget!r}: {error}") from None


def _budget(asked: str | None, simulation: Simulation) -> int:
    """Return the budget to show: what is asked for, or the least one that costs little."""
    if asked:
        return _size_of(asked, simulation.peak_bytes)
    points = [point for point in _points(simulation) if point.runs]
    cheap = [point for point in points if (point.overhead or 0) <= _SLOWDOWN]
    if not points:
        raise SimulationError("the trace does not run under any budget")
    return (cheap or points[::-1])[0].budget_bytes
