"""Keeps handlers of signals out of replays and compiled graphs.

Python calls a handler wherever its main thread is. Where Tidepool does not see the operators, the
handler's were not seen, either; within a replay they would run in that one's state.
"""

from __future__ import annotations

import _signal
import contextlib
import functools
import os
from typing import Any

from ..job import _plugin

# Its handlers do nothing. Told of a signal again, Python would wake the loop again, which would
# call twice what the job has given it.
EVENT_LOOP = "asyncio.unix_events"
_module: Any = _signal  # by which signal.py installs handlers, under whatever name a job calls it


class _Waiting:
    """A handler that is called once its thread is out of such code."""

    def __init__(self, handler, defer) -> None:
        self.handler, self.defer = handler, defer

    def __call__(self, number, frame):
        return None if self.defer(number) else self.handler(number, frame)


def _given(handler):
    """Return the handler that the job gave."""
    return handler.handler if isinstance(handler, _Waiting) else handler


def defer_in_replays(plugin: _plugin.Plugin) -> None:
    """Have handlers wait: those that there are, if this is the main thread, and later ones."""
    install, get = _module.signal, _module.getsignal

    def waiting(handler):
        waits = callable(handler) and getattr(handler, "__module__", None) != EVENT_LOOP
        return _Waiting(handler, plugin.defer_signal) if waits else handler

    @functools.wraps(install)
    def install_waiting(number, handler, /):
        return _given(install(number, waiting(_given(handler))))

    @functools.wraps(get)
    def get_given(number, /):
        return _given(get(number))

    for number in _module.valid_signals():
        handler = waiting(_given(get(number)))
        if isinstance(handler, _Waiting):
            with contextlib.suppress(ValueError):  # only the main thread may
                install(number, handler)
    _module.signal, _module.getsignal = install_waiting, get_given
    os.register_at_fork(after_in_child=plugin.become_forked_child)
