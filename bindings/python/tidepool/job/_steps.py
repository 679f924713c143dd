"""Where the job's steps end, and who is told what the budget has cost in them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

_END_STEP, _LEAVE = 0, 2  # what tidepool_optimizer_scope takes
_COUNTS = ("evictions", "evicted_bytes", "operators_replayed", "replay_ns", "search_ns")


@dataclass(frozen=True)
class Pressure:
    """What the budget has cost since the last such report; the sum over all devices."""

    evictions: int
    evicted_bytes: int
    operators_replayed: int
    replay_ns: int
    search_ns: int


class Steps:
    """The steps of one process. Thread safe; listeners are called without a lock."""

    def __init__(self, plugin) -> None:
        self._plugin = plugin
        self._named = False  # by the job: those of optimizers do not count then
        self._lock = threading.Lock()
        self._listeners: list[Callable[[Pressure], object]] = []
        self._before = dict.fromkeys(_COUNTS, 0)
        self._telling = threading.local()  # a listener may end a step

    def end(self) -> None:
        """End a step, as the job says."""
        self._named = True
        self._plugin.optimizer_scope(_END_STEP)
        self._tell()

    def end_by_optimizer(self) -> None:
        """End an optimizer's step, which is one of the job unless that names its own."""
        if self._named:
            self._plugin.optimizer_scope(_LEAVE)
            return
        self._plugin.optimizer_scope(_END_STEP)
        self._tell()

    def listen(self, listener: Callable[[Pressure], object]) -> Callable[[], None]:
        """Call a function from now on after each step that evicted; return what ends that."""
        with self._lock:
            if not self._listeners:
                self._before = self._counts()
            self._listeners = [*self._listeners, listener]

        def stop() -> None:
            with self._lock:
                self._listeners = [each for each in self._listeners if each is not listener]

        return stop

    def _counts(self) -> dict[str, int]:
        devices = self._plugin.statistics().values()
        return {key: sum(values.get(key, 0) for values in devices) for key in _COUNTS}

    def _tell(self) -> None:
        if not self._listeners or getattr(self._telling, "now", False):
            return
        with self._lock:
            counts, before, listeners = self._counts(), self._before, self._listeners
            if counts["evictions"] == before["evictions"]:
                return
            self._before = counts
        pressure = Pressure(**{key: counts[key] - before[key] for key in _COUNTS})
        self._telling.now = True
        try:
            for listener in listeners:
                listener(pressure)
        finally:
            self._telling.now = False
