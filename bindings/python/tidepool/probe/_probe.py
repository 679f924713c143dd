"""`tidepool probe`: what budgets would cost a job, the one to take, and a real run under it.

The job runs for a few steps with ample memory, and is traced. Budgets are simulated on the trace.
Then the job runs twice more, plain and under the budget that is recommended, and is compared.
"""

from __future__ import annotations

import json
import shlex
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .._streams import print_result
from ..doctor import _table, _transfers
from ..settings import _catalog, _offload, _sizes
from ..settings._sizes import as_argument
from ..verify import _runs, _step_log
from ..verify._progress import Progress
from ..verify._recorder import Task
from ..verify._runs import CouldNotRun, Run
from . import _simulation
from ._simulation import Link, Point, Simulation

PROVED, NOT_FOUND, COULD_NOT_RUN = 0, 1, 3
SLOWDOWN = 0.1  # what is recommended without a wish
STEPS = 3  # that are recorded: the first one is not like those that follow it
_STEPS_PROVED = 8  # by then a plan is found and in use
_STEPS_TIMED = 3  # the last ones
# Shares of the peak, in percent. What a small job holds in whole pages is above its peak.
GRID = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 125)
PRECISION = 100  # the least budget is found to within this part of the peak
_MANY = 4  # simulations in a round of which a line is said where there is no terminal
_RAISES, _RAISE = 5, 0.02  # how often, and by how much, a budget that is too small is raised

# Gives the job's environment with these settings, checked, and the preload library.
MakeEnviron = Callable[..., dict[str, str]]


@dataclass(frozen=True)
class Wish:
    """What a budget is looked for."""

    memory_bytes: int | None = None
    slowdown: float | None = None  # 0.1: a step may take 10 % longer
    steps: int = STEPS
    offload: _offload.Tier | None = None  # where contents may go besides


class Probe:
    """Runs one job and simulates it. `result` has what is known so far, ready for JSON."""

    def __init__(self, command: Sequence[str], make_environ: MakeEnviron, wish: Wish,
                 folder: Path, say: Callable[[str], None]) -> None:
        self.command, self._make_environ, self._wish = list(command), make_environ, wish
        self._folder, self._say = folder, say
        self._count = 0
        self._measured: _transfers.Speed | None = None
        self.simulation: Simulation | None = None
        self.result: dict = {"command": self.command}
        if wish.offload:
            self.result["offload"] = wish.offload.describe()

    def run(self) -> bool:
        """Look for a budget, and prove it; return whether there is one that is proved.

        Raises:
            CouldNotRun: the job shows nothing.
            SimulationError: its trace shows nothing.
            Interrupted: by a signal.
        """
        self.simulation = simulation = self.record()
        step = max(simulation.peak_bytes // PRECISION, 1)
        grid = [simulation.peak_bytes * share // 100 for share in GRID]
        least = _simulation.least_budget(simulation, lambda point: point.runs, step, grid)
        self.result["least"] = asdict(least) if least else None
        recommended = self._recommended(simulation, step, grid)
        self.result["recommended"] = asdict(recommended) if recommended else None
        return recommended is not None and self._prove(recommended.budget_bytes)

    def record(self, command: Sequence[str] | None = None) -> Simulation:
        """Trace a few steps of the job, or of another command, and return a simulation of them."""
        first = 2
        run, traces = self._traced(command, f"2:{max(self._wish.steps, 2)}")
        if run.steps < 2:
            first = 1
            run, traces = self._traced(command, "1")
        progress = SimulationProgress(self._say)
        simulation = Simulation(traces, run.steps - first + 1, progress=progress.note,
                                link=self._link())
        self.result |= {"peak_bytes": simulation.peak_bytes, "first_step": first,
                        "last_step": run.steps}
        return simulation

    def _link(self) -> Link | None:
        """Return where contents may go besides, and how fast that is, measured once."""
        tier = self._wish.offload
        if tier is None:
            return None
        if self._measured is None:
            try:
                self._measured = (_transfers.file_speed(tier.folder)
                                  if isinstance(tier, _offload.FileTier)
                                  else _transfers.host_speed(self._plain))
            except _transfers.CannotMeasure as problem:
                raise CouldNotRun(f"offload {tier.describe()}: {problem}") from problem
            self._say(f"offload {tier.describe()}: {self._measured.out / 1e9:.2f} GB/s out, "
                      f"{self._measured.back / 1e9:.2f} GB/s back")
        # The file below the host's memory is left out: it is the slower of the two.
        first = tier.host if isinstance(tier, _offload.ChainedTier) else tier
        return Link(first.capacity_bytes, self._measured.each_way,
                    runs_beside=isinstance(first, _offload.HostTier))

    def _traced(self, command: Sequence[str] | None, steps: str) -> tuple[Run, list[Path]]:
        trace = self._folder / f"trace_{self._count}" / "job.jsonl.gz"
        trace.parent.mkdir()
        environ = self._make_environ(trace=str(trace), trace_steps=steps)
        self._plain = {name: value for name, value in environ.items()
                       if not name.startswith(_catalog.PREFIX)}
        run = self.runs("recorded", environ, int(steps.rpartition(":")[2]), compare=False,
                        command=command)
        check_ended(run)
        if not run.attached:
            raise CouldNotRun(f"Tidepool did not attach to the job{run.tail()}")
        return run, sorted(trace.parent.iterdir())

    def runs(self, name: str, environ: Mapping[str, str], steps: int, compare: bool,
             command: Sequence[str] | None = None) -> Run:
        """Run the job, or another command, for so many steps."""
        self._count += 1
        folder = self._folder / f"run_{self._count}"
        folder.mkdir()
        self._say(f"run {self._count}, {name}")
        progress = Progress(f"run {self._count}, {name}", folder, steps, self._say)
        task = Task(str(folder), steps, compare=compare)
        return _runs.record(name, command or self.command, environ, task, progress,
                            echo=self._count == 1)

    def under(self, budget: int, name: str, command: Sequence[str]) -> Run:
        """Run a command for a few steps under a budget, without comparing anything."""
        return self.runs(name, self._make_environ(budget=as_argument(budget)), self._wish.steps,
                         compare=False, command=command)

    def _recommended(self, simulation: Simulation, step: int, grid: list[int]) -> Point | None:
        """Return the budget to take, or None."""
        if self._wish.memory_bytes:
            (point,) = simulation.at([self._wish.memory_bytes])
            # With a second tier operators on lists run in parts, which a simulation may not see.
            return point if point.runs or self._wish.offload else None
        slowdown = SLOWDOWN if self._wish.slowdown is None else self._wish.slowdown
        found = _simulation.least_budget(
            simulation, lambda point: (point.overhead or 1e9) <= 1 + slowdown, step, grid)
        return simulation.at([round_up(found.budget_bytes)])[0] if found else None

    # -- proving -----------------------------------------------------------------------------------

    def _prove(self, budget: int) -> bool:
        """Run the job plain and under a budget; note in the result what that shows."""
        steps = max(_STEPS_PROVED, self._wish.steps)
        plain = self.runs("plain", self._plain, steps, compare=True)
        check_ended(plain)
        stats = self._folder / "stats"
        stats.mkdir()
        raised = 0
        while True:
            environ = self._make_environ(budget=as_argument(budget), stats=str(stats / "out.json"))
            # Not a moment later than a simulated plan.
            environ.setdefault("TIDEPOOL_PLANNING", "wait")
            run = self.runs(f"under {as_argument(budget)}", environ, steps, compare=True)
            if not run.lacked_memory or self._wish.memory_bytes or raised == _RAISES:
                break
            raised += 1
            budget = round_up(budget + int(budget * _RAISE))
        devices = _devices(stats)
        # Who ends without exit handlers has left no statistics but those of its steps.
        peak = max([run.peak_bytes, *(each["reserved_peak_bytes"] for each in devices.values())])
        difference = _step_log.first_difference(plain.folder, run.folder, not run.ended_well)
        proved = (run.ended_well and not difference and not run.lacked_memory
                  and 0 < peak <= budget)
        self.result["proof"] = {
            "budget_bytes": budget, "raised": raised, "steps": run.steps,
            "out_of_memory": run.lacked_memory, "ended_well": run.ended_well,
            "peak_bytes": peak, "proved": proved,
            "difference": f"step {difference.step}: {difference.what}" if difference else None,
            "evictions": run.count("evictions"),
            "replays": run.count("replays"), "slowdown": _slowdown(plain, run, devices)}
        if not run.ended_well:
            self._say(f"under the budget the job {run.how_it_ended()}{run.tail()}")
        return proved


class SimulationProgress:
    """Says how many budgets are simulated and how long the rest takes; on a terminal, in place."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic,
                 stream=None) -> None:
        self._say, self._clock = say, clock
        self._stream = stream or sys.stderr
        self._start = clock()

    def note(self, done: int, of: int) -> None:
        """Take down that so many budgets, of a round of so many, are done."""
        now = self._clock()
        left = (now - self._start) / done * (of - done)
        line = f"{done} of {of} budgets simulated, about {left:.0f} s left"
        if self._stream.isatty():
            self._stream.write(f"\r\x1b[K{line}" if done < of else "\r\x1b[K")
            self._stream.flush()
        elif done == of and of >= _MANY:
            self._say(f"{of} budgets simulated in {now - self._start:.0f} s")
        if done == of:
            self._start = now


def check_ended(run: Run) -> None:
    """Raise CouldNotRun unless the job ended as it should and took a step."""
    if not run.ended_well:
        raise CouldNotRun(f"the job fails ({run.name}): it {run.how_it_ended()}{run.tail()}")
    if not run.steps:
        raise CouldNotRun("the job never called an optimizer's step where it can be seen (PyTorch "
                          f"in Python, outside of torch.compile){run.tail()}")


def round_up(budget: int) -> int:
    """Return a budget that is as easy to write, and no more than a percent above."""
    unit = next(unit for unit in (2**20, 2**16, 1) if budget >= 128 * unit)
    return -(-budget // unit) * unit


def _devices(folder: Path) -> dict[str, dict]:
    """Return the statistics of each process and device, named `PID device`."""
    found: dict[str, dict] = {}
    for path in folder.iterdir():
        content = json.loads(path.read_text())
        for name, device in content.get("devices", {}).items():
            found[f"{content['pid']} {name}"] = device
    return found


def _slowdown(plain: Run, run: Run, devices: Mapping[str, dict]) -> float | None:
    """Return how much longer the last steps took, 0.1 for 10 %; None where there were too few.

    It is processor time on the CPU, which other programs change least, and wall time on a GPU.
    """
    on_gpu = any("cuda" in name for name in devices)
    times = []
    for each in (plain, run):
        longest = max(each.stepping, key=lambda process: process.steps, default=None)
        if longest is None or longest.steps <= _STEPS_TIMED:
            return None
        steps = longest.wall_ns if on_gpu else longest.processor_ns
        times.append(statistics.median(steps[-_STEPS_TIMED:]))
    return times[1] / times[0] - 1 if times[0] else None


# -- the report ------------------------------------------------------------------------------------


def table(result: Mapping, simulation: Simulation) -> str:
    """Return simulated budgets as text, the largest first: the even shares and those chosen."""
    copies = any(point.copied_bytes for point in simulation.points.values())
    heading = ("copied", "waited") if copies else ()
    rows = [("budget", "of peak", "time", "evictions", "replays", *heading, "")]
    chosen = {(result.get(name) or {}).get("budget_bytes"): name
              for name in ("least", "recommended")}
    peak = simulation.peak_bytes
    grid = {peak * share // 100 for share in GRID}
    for point in sorted(simulation.points.values(), key=lambda p: -p.budget_bytes):
        if point.budget_bytes not in grid | chosen.keys():
            continue
        size = _sizes.format_size(point.budget_bytes, exact=False)
        share = f"{100 * point.budget_bytes / peak:.0f} %"
        note = {"least": "the least that runs"}.get(name := chosen.get(point.budget_bytes, ""),
                                                    name)
        if point.overhead is None:
            rows.append((size, share, "does not run", "", "", *("" for _ in heading), note))
        else:
            copied = (_size(point.copied_bytes), f"{point.waited_ns / 1e6:.1f} ms")
            rows.append((size, share, percent(point.overhead - 1), str(point.evictions),
                         str(point.replays), *(copied if copies else ()), note))
    return _table.aligned(rows, right=tuple(range(5 + len(heading))))


def percent(share: float) -> str:
    """Return a change of time as text, such as +9.1 %."""
    return f"{100 * share:+.1f} %"


def report(result: Mapping, simulation: Simulation | None) -> str:
    """Return what is known, as text; of a probe that was interrupted, what was known by then."""
    lines = []
    if simulation:
        lines += [f"peak without a budget: {_size(simulation.peak_bytes)}, in steps "
                  f"{result['first_step']} to {result['last_step']}", table(result, simulation)]
    if "recommended" in result:
        lines += _recommendation(result)
    if "problem" in result:
        lines.append(f"could not run: {result['problem']}")
    return "\n".join(lines)


def _recommendation(result: Mapping) -> list[str]:
    recommended, proof = result["recommended"], result.get("proof")
    if recommended is None:
        least = result["least"]
        known = f": the least that runs is {_size(least['budget_bytes'])}" if least else ""
        return [f"no budget found that does what was asked for, in simulation{known}"]
    overhead = recommended["overhead"]
    time = ("which does not run in simulation" if overhead is None else
            f"{percent(overhead - 1)} time in simulation")
    lines = [f"recommended: {_size(recommended['budget_bytes'])}, {time}"]
    if proof is None:
        return [*lines, "not proved yet"]
    if proof["raised"]:
        lines.append(f"raised to {_size(proof['budget_bytes'])}, as the job ran out of memory")
    if proof["proved"]:
        slowdown = proof["slowdown"]
        measured = "" if slowdown is None else f", measured {percent(slowdown)} time"
        lines.append(f"proved: {proof['steps']} steps with the same bits, peak "
                     f"{_size(proof['peak_bytes'])}, {proof['evictions']} evictions{measured}")
    elif proof["out_of_memory"]:
        lines.append("not proved: the job ran out of memory under this budget")
    elif proof["difference"]:
        lines.append(f"not proved: the job differs from a plain run at {proof['difference']}; "
                     "`tidepool verify` tells whether it differs from itself")
    elif not proof["ended_well"]:
        lines.append("not proved: the job ends well by itself, but not under this budget")
    elif proof["peak_bytes"] > proof["budget_bytes"]:
        lines.append(f"not proved: it held {_size(proof['peak_bytes'])}")
    else:
        lines.append("not proved: no process of the job said how much memory it held")
    return [*lines, command_line(result, proof["budget_bytes"])]


def command_line(result: Mapping, budget: int) -> str:
    """Return the line to copy that runs the job under a budget."""
    offload = ["--offload", result["offload"]] if "offload" in result else []
    words = ["tidepool", "run", "--budget", as_argument(budget), *offload, "--",
             *result["command"]]
    return f"  {shlex.join(words)}"


def _size(size: int) -> str:
    return _sizes.format_size(size, exact=False)


def say(line: str) -> None:
    """Print a line on standard error."""
    print(f"tidepool probe: {line}", file=sys.stderr, flush=True)


def main(command: Sequence[str], make_environ: MakeEnviron, wish: Wish, as_json: bool) -> int:
    """Probe a job and print what is found; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="tidepool-probe-") as folder:
        probe = Probe(command, make_environ, wish, Path(folder), say)
        status = attempt(probe.run, probe.result)
    if as_json:
        points = probe.simulation.points.values() if probe.simulation else ()
        print_json({**probe.result, "points": [
            asdict(point) for point in sorted(points, key=lambda p: p.budget_bytes)]}, status)
    else:
        print_result(report(probe.result, probe.simulation))
    return status


def attempt(find: Callable[[], bool], result: dict) -> int:
    """Look for something; return the exit status, and note in the result what went wrong."""
    try:
        return PROVED if find() else NOT_FOUND
    except (CouldNotRun, _simulation.SimulationError) as problem:
        result["problem"] = str(problem)
        return COULD_NOT_RUN
    except _runs.Interrupted as interruption:
        return interruption.status
    except KeyboardInterrupt:  # between two runs, or while simulating
        return 128 + signal.SIGINT


def print_json(result: Mapping, status: int) -> None:
    """Print a result as one JSON object."""
    print_result(json.dumps({**result, "status": status}, indent=2))
