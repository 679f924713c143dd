"""Switches interception on in threads: new ones through the preload shim, or Python's only.

Those that Python runs already follow where none of them can have used PyTorch.
"""

from __future__ import annotations

import ctypes
import functools
import sys
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


def follow_running_threads(plugin: _plugin.Plugin) -> None:
    """Switch interception on in the other threads of Python, before anything that they do next.

    Each is switched by a profile function of its own, which is the first thing that it calls once
    it goes on in Python, and which leaves again. Where the job has profile functions, or this
    Python cannot give one to another thread, they stay as they are.

    Requires: none of them is in a call of PyTorch's, as is so while it is being imported.
    """
    api = ctypes.pythonapi
    if sys.getprofile() or threading.getprofile() or not hasattr(api, "_PyEval_SetProfile"):
        return
    pointer = ctypes.c_void_p

    @ctypes.PYFUNCTYPE(ctypes.c_int, pointer, pointer, ctypes.c_int, pointer)
    def switch_on(_self, _frame, _event, _argument) -> int:
        sys.setprofile(None)
        plugin.thread(1)
        return 0

    _kept.append(switch_on)
    set_profile = api._PyEval_SetProfile
    set_profile.restype, set_profile.argtypes = ctypes.c_int, [pointer, pointer, pointer]
    names = ("PyInterpreterState_Get", "PyInterpreterState_ThreadHead", "PyThreadState_Next",
             "PyThreadState_Get")
    interpreter, first_of, after, current = (
        ctypes.PYFUNCTYPE(pointer, *([pointer] if takes else []))((name, api))
        for name, takes in zip(names, (False, True, True, False), strict=True))
    thread = first_of(interpreter())
    while thread:
        if thread != current():
            set_profile(thread, ctypes.cast(switch_on, pointer), None)
        thread = after(thread)
