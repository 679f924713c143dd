"""Times the steps of a job: without what its recorder takes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class StepClock:
    """Counts wall time and the process's processor time since the end of the step before."""

    def __init__(self) -> None:
        self._since = self._paused_at = _now()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time that passes in the block."""
        self._paused_at = _now()
        try:
            yield
        finally:
            self._since = tuple(since + now - then for since, now, then in
                                zip(self._since, _now(), self._paused_at, strict=True))

    def lap(self) -> dict[str, int]:
        """End a step where the block of `paused` that calls this began; return its times."""
        wall, processor = (end - since for end, since in
                           zip(self._paused_at, self._since, strict=True))
        self._since = self._paused_at
        return {"wall_ns": wall, "processor_ns": processor}


def _now() -> tuple[int, ...]:
    return time.perf_counter_ns(), time.process_time_ns()
