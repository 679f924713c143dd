"""What a Python function could leave behind: the values that it reaches by its names.

Reachable are its globals that its code names, its closure, its default values, and what hangs on
these: elements of containers, attributes of objects, functions of the job's, attributes that the
code names of modules of the job's. Modules of Python's own and of libraries are left out.
"""

from __future__ import annotations

import collections
import io
import itertools
import site
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_MOST_VALUES = 5_000
_MOST_ELEMENTS = 4 << 10  # of a tensor, whose contents are looked at
_PLAIN = (int, float, complex, str, bytes, bytearray, bool, type(None))
_CONTAINERS = (list, tuple, set, frozenset, dict, collections.deque)
_COMPILED = ("torch", "tidepool", "numpy", "triton")  # whose objects are not looked into
_TELLING = (itertools.count, itertools.cycle, itertools.repeat)  # whose text is their state
_FOREIGN = (str(Path(types.__file__).parent), *site.getsitepackages(), site.getusersitepackages())


class ReachableState:
    """Describes the values that some functions reach, so that two descriptions can be compared."""

    def __init__(self, torch, functions: Iterable[Callable],
                 fingerprint: Callable[[object], str]) -> None:
        self._torch = torch
        self._functions = list(functions)
        self._fingerprint = fingerprint

    def describe(self) -> list[tuple]:
        """Return a description; where it differs from an earlier one something was changed."""
        described: list[tuple] = []
        names = {name for each in self._functions for name in _names_in(each.__code__)}
        pending: list[object] = list(self._functions)
        seen: dict[int, object] = {}  # keeps what is looked at alive, so that ids stay unique
        while pending and len(seen) < _MOST_VALUES:
            value = pending.pop()
            if id(value) in seen:
                continue
            seen[id(value)] = value
            if isinstance(value, types.FunctionType):
                names |= set(_names_in(value.__code__))
            described.append(self._one(value))
            pending += self._parts(value, names)
        return described

    def _one(self, value) -> tuple:
        if isinstance(value, _PLAIN):
            return type(value).__name__, bytes(value) if isinstance(value, bytearray) else value
        if isinstance(value, self._torch.Tensor):
            contents = self._fingerprint(value) if value.numel() <= _MOST_ELEMENTS else ""
            return "tensor", id(value), value._version, tuple(value.shape), contents
        if hasattr(value, "tobytes") and getattr(value, "nbytes", _MOST_ELEMENTS) < _MOST_ELEMENTS:
            return type(value).__name__, id(value), value.tobytes()  # NumPy's, or of `array`
        if isinstance(value, io.IOBase):
            return "file", id(value), _position(value)
        if isinstance(value, _TELLING):
            return "iterator", repr(value)
        if isinstance(value, _CONTAINERS):
            # What holds nothing but plain values may well be another object each time.
            return type(value).__name__, len(value)
        return type(value).__name__, id(value)

    def _parts(self, value, names: set[str]) -> Iterator:
        if isinstance(value, dict):
            yield from value.keys()
            yield from value.values()
        elif isinstance(value, _CONTAINERS):
            yield from value
        elif isinstance(value, types.FunctionType):
            if _is_foreign(value.__code__.co_filename):
                return
            for name in _names_in(value.__code__):
                if name in value.__globals__:
                    yield from _entered(value.__globals__[name])
            for cell in value.__closure__ or ():
                if _filled(cell):
                    yield cell.cell_contents
            yield from value.__defaults__ or ()
            yield value.__dict__
        elif isinstance(value, types.MethodType):
            yield value.__func__
            yield value.__self__
        elif isinstance(value, types.ModuleType):
            for name in sorted(names):
                if name in vars(value):
                    yield from _entered(vars(value)[name])
        elif isinstance(value, type):
            if not _of_library(value):
                yield from (part for name, part in vars(value).items() if not name.startswith("__"))
        elif (type(value).__module__ or "").partition(".")[0] not in _COMPILED:
            yield from getattr(value, "__dict__", {}).values()
            yield from (getattr(value, slot) for slot in getattr(type(value), "__slots__", ())
                        if isinstance(slot, str) and hasattr(value, slot))


def _entered(value) -> Iterator:
    """Yield a value unless it is a module, class or function of a library."""
    if isinstance(value, types.ModuleType):
        if not _is_library(value.__name__):
            yield value
    elif isinstance(value, type):
        if not _of_library(value):
            yield value
    else:
        yield value


def _names_in(code: types.CodeType) -> Iterator[str]:
    """Yield the names that some code and the functions inside it use."""
    pending = [code]
    while pending:
        each = pending.pop()
        yield from each.co_names
        pending += [part for part in each.co_consts if isinstance(part, types.CodeType)]


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _position(file: io.IOBase) -> int:
    try:
        return -1 if file.closed else file.tell()
    except (OSError, ValueError):
        return -1


def _of_library(kind: type) -> bool:
    return _is_library(kind.__module__ or "")


def _is_library(module: str) -> bool:
    root = module.partition(".")[0]
    if root == "__main__":
        return False
    if root in sys.stdlib_module_names or root in _COMPILED:
        return True
    return _is_foreign(getattr(sys.modules.get(root), "__file__", None) or "")


def _is_foreign(file: str) -> bool:
    return file.startswith(_FOREIGN)
