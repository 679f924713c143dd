"""Running a job with the recorder: what `tidepool verify` and `tidepool probe` have in common."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import _step_log
from ._progress import Progress
from ._recorder import LACKED, VARIABLE, Task

_SECONDS_TO_DIE = 10  # after an interruption
_LINES_SHOWN = 30  # of the output of a run that failed


class CouldNotRun(Exception):
    """There is nothing to compare; the message says why."""


class Interrupted(Exception):
    """A signal asked us to end; `status` is the exit status for that."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.status = 128 + number


@dataclass
class Run:
    """A finished run of the job."""

    name: str
    folder: Path
    status: int  # as subprocess gives it: negative for a signal
    processes: dict[str, _step_log.Summary] = field(default_factory=dict)

    @property
    def ended_well(self) -> bool:
        """Tell whether the job ended as it should, or was stopped by us (and perhaps minded)."""
        stopped = bool(self.stepping) and all(p.stopped for p in self.stepping)
        return self.status == 0 or (self.status > 0 and stopped)

    @property
    def stepping(self) -> list[_step_log.Summary]:
        return [p for p in self.processes.values() if p.steps]

    @property
    def steps(self) -> int:
        return max((p.steps for p in self.stepping), default=0)

    @property
    def attached(self) -> bool:
        return bool(self.processes) and all(p.attached for p in self.processes.values())

    def count(self, counter: str) -> int:
        return sum(p.counters.get(counter, 0) for p in self.processes.values())

    @property
    def peak_bytes(self) -> int:
        """Tell the most that a process held of the budget; 0 if none said so."""
        return max((p.counters.get("peak_bytes", 0) for p in self.processes.values()), default=0)

    @property
    def lacked_memory(self) -> bool:
        """Tell whether a process of the job ran out of memory, also before its first step."""
        if self.count("out_of_memory") or list(self.folder.glob(f"*{LACKED}")):
            return True
        # An error that nobody catches, on a thread of C++, aborts: then the output alone tells.
        aborted = self.status in (-signal.SIGABRT, 128 + signal.SIGABRT)
        return aborted and b"OutOfMemoryError" in (self.folder / "output").read_bytes()

    def how_it_ended(self) -> str:
        """Return the exit status in words."""
        if self.status >= 0:
            return f"exits with status {self.status}"
        with contextlib.suppress(ValueError):
            return f"is killed by {signal.Signals(-self.status).name}"
        return f"is killed by signal {-self.status}"

    def tail(self) -> str:
        """Return the last lines that it printed, to be appended to a message."""
        lines = (self.folder / "output").read_text(errors="replace").splitlines()[-_LINES_SHOWN:]
        return "".join(f"\n  | {line}" for line in ["its last output:", *lines]) if lines else ""


def record(name: str, command: Sequence[str], environ: Mapping[str, str], task: Task,
           progress: Progress, echo: bool = False) -> Run:
    """Run a job to its end with the recorder, and return what it did.

    Args:
        echo: its output goes to standard error; else to a file in the task's folder.

    Raises:
        CouldNotRun: it cannot be started, or recording failed.
        Interrupted: we got a signal, which the job got too.
    """
    folder = Path(task.folder)
    with open(folder / "output", "wb") as output:
        status = run_job(list(command), {**environ, VARIABLE: task.to_variable()},
                         None if echo else output, progress)
    progress.finish()
    run = Run(name, folder, status, _step_log.summaries(folder))
    broken = [p.broken for p in run.processes.values() if p.broken]
    if broken:
        raise CouldNotRun(f"recording the run {name} failed: {broken[0]}{run.tail()}")
    return run


def run_job(command: list[str], environ: dict[str, str], output, progress: Progress) -> int:
    """Run a command to its end; return its status as subprocess gives it.

    Args:
        output: a file for its standard output and error; None sends both to our standard error.
        progress: is asked to look every second.

    Raises:
        CouldNotRun: it cannot be started.
        Interrupted: we got a signal, which the job got too.
    """
    target = sys.stderr.fileno() if output is None else output
    sys.stderr.flush()
    try:
        job = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=target,
                               stderr=target)
    except FileNotFoundError:
        raise CouldNotRun(f"command not found: {command[0]}") from None
    except OSError as error:
        raise CouldNotRun(f"cannot start {command[0]}: {error.strerror}") from None
    with _passing_on(job) as received:
        while (status := _status_within_a_second(job)) is None:
            progress.look()
    if received:
        raise Interrupted(received[0])
    return status


def _status_within_a_second(job: subprocess.Popen) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return job.wait(1)
    return None


@contextlib.contextmanager
def _passing_on(job: subprocess.Popen) -> Iterator[list[int]]:
    """Note signals that ask us to end, and see to it that the job ends too."""
    received: list[int] = []

    def take(number, frame):
        received.append(number)
        if number != signal.SIGINT:  # a terminal sends that one to the job as well
            job.send_signal(number)
        signal.alarm(_SECONDS_TO_DIE)

    def lose_patience(number, frame):
        job.kill()

    handlers = {signal.SIGINT: take, signal.SIGTERM: take, signal.SIGHUP: take,
                signal.SIGALRM: lose_patience}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield received
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)
