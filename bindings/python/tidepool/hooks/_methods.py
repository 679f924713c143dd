"""Methods in C, for classes of PyTorch's that are in C.

torch.compile takes a function in Python in such a class for a change of the job's: it cuts its
graphs elsewhere, or compiles nothing of what follows a call. The methods are the plugin's, which is
built without Python, and gets Python's own functions from here.
"""

from __future__ import annotations

import ctypes
import types
from typing import Any

_WITH_KEYWORDS = 1 | 2  # METH_VARARGS | METH_KEYWORDS
NO_ARGUMENTS = 4  # METH_NOARGS


class _MethodDef(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("method", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p))


class PythonCalls(ctypes.Structure):
    """The plugin's `tidepool_python_calls`."""

    _fields_ = (("bind", ctypes.c_void_p), ("call", ctypes.c_void_p), ("drop", ctypes.c_void_p))


_alive: list[object] = []  # what Python and the plugin have pointers to, until the process ends


def address(name: str) -> ctypes.c_void_p:
    """Return the address of one of Python's own functions."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p)


def make(owner: type, name: str, function: int, flags: int, doc: str | None, *alive: object) -> Any:
    """Return a method for a class whose calls are those of a function in C.

    Args:
        function: its address.
        alive: what it needs for as long as the process lives.
    """
    definition = _MethodDef(name.encode(), function, flags, doc.encode() if doc else None)
    _alive.extend((definition, *alive))
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
        ("PyDescr_NewMethod", ctypes.pythonapi))
    return new(owner, ctypes.addressof(definition))


def in_c(library, owner: type, name: str, function: types.FunctionType) -> Any:
    """Return a method for a class that calls a function in Python with the same arguments.

    Returns the function itself where the plugin has no more of them.
    """
    calls = PythonCalls(address("PyMethod_New"), address("PyObject_Call"), address("Py_DecRef"))
    in_plugin = library.tidepool_method_for(ctypes.byref(calls), id(function))
    if not in_plugin:
        return function
    return make(owner, name, in_plugin, _WITH_KEYWORDS, function.__doc__, function)
