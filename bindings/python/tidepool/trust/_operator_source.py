"""What defines an operator of the job's: the library, or the Python files, that its kernels lie in.

Kernels in Python are noted when they are registered, because PyTorch does not show them afterwards.
Those of `torch.library.custom_op` and `triton_op` are found in its own books.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sysconfig
import types
from collections.abc import Callable, Iterable
from pathlib import Path

_PIECE_BYTES = 1 << 20
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib",
                                                          "platlib")})
# Keys whose kernels compute no contents.
_WITHOUT_CONTENTS = ("Autograd", "Autocast", "Fake", "Functionalize", "Meta", "Python")


class OperatorSources:
    """Knows the Python kernels that were registered since it follows registrations."""

    def __init__(self, torch) -> None:
        self._library = torch.library.Library
        self._folder = str(Path(torch.__file__).parent)
        self._kernels: dict[str, list[Callable]] = {}

    def follow(self) -> None:
        """Note from now on which functions become kernels."""
        original = self._library.impl

        @functools.wraps(original)
        def impl(library, op_name, fn, dispatch_key="", **kwargs):
            name = op_name.name() if hasattr(op_name, "name") else str(op_name)
            name = name if "::" in name else f"{library.ns}::{name}"
            if inspect.isroutine(fn) and not str(dispatch_key).startswith(_WITHOUT_CONTENTS):
                self._kernels.setdefault(name, []).append(fn)
            return original(library, op_name, fn, dispatch_key, **kwargs)

        self._library.impl = impl

    def is_of_torch(self, library: str) -> bool:
        """Return whether a kernel in a library is PyTorch's own, in C++."""
        return library.startswith(self._folder) and "torch_python" not in Path(library).name

    def kernels(self, operator: str) -> list[Callable]:
        """Return the Python functions that compute an operator, such as "mylib::op.Tensor"."""
        from torch._library import custom_ops

        definition = custom_ops.OPDEFS.get(operator.partition(".")[0])
        if definition is not None:
            functions = [definition._init_fn, *definition._backend_fns.values()]
        else:
            functions = self._kernels.get(operator, [])
        functions = [inspect.unwrap(each) for each in functions]
        return list(dict.fromkeys(each for each in functions if self._file(each) is not None))

    def describe(self, operator: str, library: str) -> tuple[str, str]:
        """Return the names and the digest of what defines an operator; "", "" if that is unknown.

        Args:
            library: the library of its kernel for the device; "" if that is not known.
        """
        if library and not library.startswith(self._folder):
            return Path(library).name, digest_of([Path(library)])
        files = {self._file(each) for each in self._reached(self.kernels(operator))}
        paths = sorted(Path(each) for each in files if each)
        if not paths or not all(path.is_file() for path in paths):
            return "", ""
        return ", ".join(path.name for path in paths), digest_of(paths)

    def _reached(self, kernels: Iterable[Callable]) -> list[Callable]:
        """Return kernels with the functions in Python that they may call by names.

        Those of PyTorch, of Python, and of packages that are installed are left out, unless a
        kernel lies in the same package.
        """
        found: dict[Callable, None] = {}
        left = list(kernels)
        packages = {_package(each) for each in left}
        while left:
            function = left.pop()
            if function in found or self._file(function) is None:
                continue
            found[function] = None
            left += [each for each in _named_in(function) if _is_followed(each, packages)]
        return list(found)

    def _file(self, kernel: Callable) -> str | None:
        """Return the file of a function that is not PyTorch's."""
        code = getattr(kernel, "__code__", None)
        if code is None or code.co_filename.startswith(self._folder):
            return None
        return code.co_filename


def _package(function: Callable) -> str:
    return str(getattr(function, "__module__", None)).partition(".")[0]


def _is_followed(function: types.FunctionType, packages: set[str]) -> bool:
    """Return whether it has a file, and is of a kernel's package or of none that is installed."""
    file = function.__code__.co_filename
    is_own = _package(function) in packages or not file.startswith(_INSTALLED)
    return is_own and Path(file).is_file()


def _named_in(function: Callable) -> list[types.FunctionType]:
    """Return the functions in Python in its closure and defaults, and those that it names.

    Names are those of globals, and of what is in modules and classes among these. What it imports
    when it runs is left out, because that is not there before.
    """
    names = _names(function.__code__)
    values = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    values += [function.__globals__[name] for name in names if name in function.__globals__]
    owners = [each for each in values if inspect.ismodule(each) or inspect.isclass(each)]
    known: set[int] = set()
    while owners:
        owner = owners.pop()
        if id(owner) in known:
            continue
        known.add(id(owner))
        inside = vars(owner)
        members = ([inside[name] for name in names if name in inside]
                   if inspect.ismodule(owner) else list(inside.values()))
        values += members
        owners += [each for each in members if inspect.ismodule(each) or inspect.isclass(each)]
    values += [each.func for each in values if isinstance(each, functools.partial)]
    values += [inspect.getattr_static(each, "__wrapped__", None) for each in values]
    values = [getattr(each, "__func__", each)
              if isinstance(each, (types.MethodType, classmethod, staticmethod)) else each
              for each in values]
    return [each for each in values if isinstance(each, types.FunctionType)]


def _names(code: types.CodeType) -> list[str]:
    """Return the names that code uses, with that of functions inside of it."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return [*code.co_names, *(name for each in inner for name in _names(each))]


def _is_filled(cell) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def digest_of(paths: Iterable[Path]) -> str:
    """Return a digest of the contents of files."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
    return digest.hexdigest()
