"""What defines an operator of the job's: the library, or the Python files, that its kernels lie in.

Kernels in Python are noted when they are registered, because PyTorch does not show them afterwards.
Those of `torch.library.custom_op` and `triton_op` are found in its own books.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path

_PIECE_BYTES = 1 << 20
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
        files = {self._file(kernel) for kernel in self.kernels(operator)}
        paths = sorted(Path(each) for each in files if each)
        if not paths or not all(path.is_file() for path in paths):
            return "", ""
        return ", ".join(path.name for path in paths), digest_of(paths)

    def _file(self, kernel: Callable) -> str | None:
        """Return the file of a function that is not PyTorch's."""
        code = getattr(kernel, "__code__", None)
        if code is None or code.co_filename.startswith(self._folder):
            return None
        return code.co_filename


def digest_of(paths: Iterable[Path]) -> str:
    """Return a digest of the contents of files."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
    return digest.hexdigest()
