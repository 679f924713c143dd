"""Give operators on the stand-in CUDA device values: hashes of all that they read.

In a job: `import value_kernels` before torch, since Tidepool, which attaches as torch is imported,
vouches for the kernels that it finds, and for no others; then `kernels = value_kernels.install()`.
Or, for a job that knows nothing of it, run this file with the job's script and its arguments:

    python value_kernels.py script.py ARGUMENTS...

VALUE_KERNELS_TRACE=FILE names a file that gets a line for every call: a hash of what it read, and
its operator. VALUE_KERNELS_BLANK=N is the seed of what fresh memory holds; 0, the default: what was
there. tests/support/value_kernels/README.md says what the values are.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Iterable
from pathlib import Path


def standin_folder() -> Path | None:
    """Return the folder of the stand-in device's libraries; None if this process has none."""
    loaded = Path("/proc/self/maps").read_text().split()
    found = [path for path in loaded if path.endswith("/libcuda.so.1") and "fake_cuda" in path]
    return Path(found[0]).parent if found else None


def load_library(folder: Path) -> ctypes.CDLL:
    """Return the library of value kernels, with PyTorch's libraries loaded as torch does it."""
    if "torch" not in sys.modules:
        libraries = Path(importlib.util.find_spec("torch").origin).parent / "lib"
        ctypes.CDLL(str(libraries / "libtorch_global_deps.so"), ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(libraries / "libtorch_cuda.so"))
    library = ctypes.CDLL(str(folder / "libvalue_kernels.so"))
    library.value_kernels_install.restype = ctypes.c_int64
    return library


_FOLDER = standin_folder()
_LIBRARY = load_library(_FOLDER) if _FOLDER is not None else None
_REPLACED = _LIBRARY.value_kernels_install() if _LIBRARY is not None else -1

import torch  # noqa: E402

TRACE = "VALUE_KERNELS_TRACE"
BLANK = "VALUE_KERNELS_BLANK"


class ValueKernels:
    """Steers and inspects the value kernels of this process, for good."""

    def __init__(self, library: ctypes.CDLL, replaced: int) -> None:
        self._library = library
        self.replaced = replaced
        for name in ("operations", "planted_happened"):
            self._function(name).restype = ctypes.c_int64
        for name in ("calls", "untreated"):
            self._function(name).restype = ctypes.c_size_t

    def _function(self, name: str):
        return getattr(self._library, f"value_kernels_{name}")

    def trace(self, path: str | Path) -> None:
        """Write a line for every call from now on: its hash and its operator."""
        if self._function("trace")(str(path).encode()) != 0:
            raise OSError(f"cannot write {path}")

    def watch(self, on: bool = True) -> None:
        """Declare operands to the race checker, in place of an OperandWatch.

        Unlike that it is not seen by the job, and needs no raw pointers. Use it with
        standin.Device.watch_allocator().
        """
        self._function("watch")(ctypes.c_int(on))

    def set_blank_seed(self, seed: int) -> None:
        """Let fresh memory have contents that depend on a seed; 0: what is in it is left there."""
        self._function("set_blank_seed")(ctypes.c_uint64(seed))

    def plant_stale_read(self, n: int) -> None:
        """Let the n-th read, from now, of what was written in place since see what was before."""
        self._function("plant_stale_read")(ctypes.c_uint64(n))

    def plant_lost_write(self, n: int) -> None:
        """Drop the n-th write in place, from now, that depends on the old contents."""
        self._function("plant_lost_write")(ctypes.c_uint64(n))

    def planted_happened(self) -> int:
        """Return how many of the planted faults have happened."""
        return self._function("planted_happened")()

    def operations(self) -> int:
        """Return how many kernels, copies and fills the device was given within value kernels."""
        return self._function("operations")()

    def calls(self) -> dict[str, int]:
        """Return how often each operator was called, calls from within others left out."""
        lines = (line.split() for line in self._text("calls").splitlines())
        return {name: int(outer) for name, outer, _ in lines if int(outer)}

    def untreated(self) -> list[str]:
        """Return operators that had operands whose contents are not plain."""
        return [line.split()[0] for line in self._text("untreated").splitlines()]

    def _text(self, name: str) -> str:
        room = self._function(name)(None, ctypes.c_size_t(0)) + 1
        text = ctypes.create_string_buffer(room)
        self._function(name)(text, ctypes.c_size_t(room))
        return text.value.decode()


def install() -> ValueKernels:
    """Return the value kernels, which are in the place of all CUDA kernels, on the stand-in."""
    if _LIBRARY is None:
        raise RuntimeError("value kernels need the stand-in CUDA device")
    if _REPLACED < 0:
        raise RuntimeError("the value kernels were not installed: see standard error")
    kernels = ValueKernels(_LIBRARY, _REPLACED)
    if os.environ.get(TRACE):
        kernels.trace(os.environ[TRACE])
    kernels.set_blank_seed(int(os.environ.get(BLANK, 0)))
    return kernels


def fingerprint(tensors: Iterable[torch.Tensor | None]) -> str:
    """Return a hash of tensors' dtypes, shapes and elements, in their order."""
    found = hashlib.sha256()
    for tensor in tensors:
        if tensor is None:
            found.update(b"none")
            continue
        found.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        host = tensor.detach().cpu().contiguous()
        found.update(host.view(-1).view(torch.uint8).numpy().tobytes() if host.numel() else b"")
    return found.hexdigest()[:16]


def main() -> None:
    """Run the script that the arguments name, with value kernels."""
    sys.argv.pop(0)
    install()
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
