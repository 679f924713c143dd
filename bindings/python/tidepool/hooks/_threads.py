"""Switches interception on in new threads: through the preload shim, or in Python threads only.

The main one follows where another one imports PyTorch.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

from ..job import _plugin

_kept: list = []  # what Python may call for as long as it runs


def preload_shim(library=None):
    """Return the preload shim's registration function if the shim is in this process, else None."""
    try:
        register = (library or ctypes.CDLL(None)).tidepool_preload_set_thread_start
    except AttributeError:
        return None
    register.restype, register.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p]
    return register


def follow_new_threads(plugin: _plugin.Plugin) -> str:
    """Make threads that start from now on begin with interception on.

    Returns:
        "preload" where the shim does it for every thread whose creator has it on, else "python":
        Python's own threads only.
    """
    register = preload_shim()
    if register is not None:
        start = ctypes.cast(plugin.library.tidepool_thread, ctypes.c_void_p)
        is_on = ctypes.cast(plugin.library.tidepool_thread_is_on, ctypes.c_void_p)
        register(start, is_on)
        return "preload"
    thread: Any = threading.Thread
    original = thread._bootstrap_inner

    @functools.wraps(original)
    def bootstrap_inner(self):
        plugin.thread(1)
        original(self)

    thread._bootstrap_inner = bootstrap_inner
    return "python"


def follow_main_thread(plugin: _plugin.Plugin) -> None:
    """Switch interception on in Python's main thread, where another one imports PyTorch.

    It is switched by a pending call, which Python makes there between two of its instructions.

    Requires: it is in no call of PyTorch's, as is so while that is being imported.
    """
    if threading.current_thread() is threading.main_thread():
        return

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    def switch_on(_argument) -> int:
        plugin.thread(1)
        return 0

    _kept.append(switch_on)
    ctypes.pythonapi.Py_AddPendingCall(switch_on, None)
