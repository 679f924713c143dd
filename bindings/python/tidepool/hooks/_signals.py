"""Keeps handlers of signals out of replays.

Python calls a handler wherever its main thread is. Within a kernel in Python that is run again, the
handler's operators would run in the state of the replay, and Tidepool would see none of them.
"""

from __future__ import annotations

import contextlib
import functools
import signal
from typing import Any

from ..job import _plugin

_module: Any = signal


class _Waiting:
    """A handler that is called once no replay is under way on the thread."""

    def __init__(self, handler, defer) -> None:
        self.handler, self.defer = handler, defer

    def __call__(self, number, frame):
        return None if self.defer(number) else self.handler(number, frame)


def _given(handler):
    """Return the handler that the job gave."""
    return handler.handler if isinstance(handler, _Waiting) else handler


def defer_in_replays(plugin: _plugin.Plugin) -> None:
    """Have handlers wait for the end of a replay: those that there are, and later ones.

    The default one of SIGINT does not: its exception ends the replay, and the job's operator.
    """
    install, get = signal.signal, signal.getsignal

    def waiting(handler):
        own = callable(handler) and handler is not signal.default_int_handler
        return _Waiting(handler, plugin.defer_signal) if own else handler

    @functools.wraps(install)
    def install_waiting(number, handler):
        return _given(install(number, waiting(_given(handler))))

    @functools.wraps(get)
    def get_given(number):
        return _given(get(number))

    for number in signal.valid_signals():
        handler = get(number)
        if waiting(handler) is not handler:
            with contextlib.suppress(ValueError):  # only the main thread may
                install(number, waiting(handler))
    _module.signal, _module.getsignal = install_waiting, get_given
