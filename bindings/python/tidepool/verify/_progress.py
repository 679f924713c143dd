"""How far a run of a job is that `tidepool verify` compares, said ever more rarely."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from . import _step_log

_FIRST_SECONDS, _MOST_SECONDS = 10, 120  # between two lines: this at first, then twice as much


class Progress:
    """Follows one run by the logs in its folder."""

    def __init__(self, run: str, folder: Path, steps: int | None, say: Callable[[str], None],
                 clock: Callable[[], float] = time.monotonic) -> None:
        """Begin a run.

        Args:
            run: its name, with which each line begins.
            steps: how many it is going to take, if that is known.
            clock: seconds.
        """
        self._run, self._folder, self._say, self._clock = run, folder, say, clock
        self._of = f" of {steps}" if steps else ""
        self._start = clock()
        self._pause = _FIRST_SECONDS
        self._next = self._start + self._pause
        # By file: what has been read of it, and the steps therein.
        self._read: dict[str, tuple[int, int]] = {}

    def look(self) -> None:
        """Say how far the run is, if it is time for that."""
        now = self._clock()
        if now < self._next:
            return
        self._pause = min(2 * self._pause, _MOST_SECONDS)
        self._next = now + self._pause
        self._say(f"{self._run}: {self._steps()}{self._of} steps after {self._seconds()}")

    def finish(self) -> None:
        """Say how the run went."""
        steps = self._steps()
        self._say(f"{self._run}: {steps} {'step' if steps == 1 else 'steps'} in {self._seconds()}")

    def _seconds(self) -> str:
        return f"{self._clock() - self._start:.0f} s"

    def _steps(self) -> int:
        """Return the steps of the process that has most of them."""
        for path in self._folder.glob(f"*{_step_log.SUFFIX}"):
            position, steps = self._read.get(path.name, (0, 0))
            with open(path, "rb") as file:
                file.seek(position)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    position += len(line)
                    steps = max(steps, _step_log.ended_step(line))
            self._read[path.name] = position, steps
        return max((steps for _, steps in self._read.values()), default=0)
