"""What ./dev gpu-check needs of a machine, and what this one has: said before anything runs."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import measure

DRIVER = (13, 0)  # of CUDA; the driver 580 brings it
GLIBC = (2, 34)  # as cmake/needed_symbols.py checks
GLIBCXX = (3, 4, 29)
PYTHON = (3, 11)
# Of the device, for stage a: its largest job reserves 25.5 GiB.
FREE_GIB = 28


def text(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def judged(name: str, found: Sequence[int] | None, needed: Sequence[int], what: str) -> str:
    """Return a line about a version, or about one that is not there."""
    if found is None:
        return f"{name}: none; needed is {text(needed)} or newer {what}".rstrip()
    verdict = "" if tuple(found) >= tuple(needed) else (
        f": TOO OLD, needed is {text(needed)} or newer {what}".rstrip())
    return f"{name}: {text(found)}{verdict}"


def driver_library() -> ctypes.CDLL | None:
    """Return the driver, initialised, if there is one."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return library if library.cuInit(0) == 0 else None


def driver(library: ctypes.CDLL | None) -> tuple[int, int] | None:
    """Return the version of CUDA that the driver has."""
    version = ctypes.c_int()
    if library is None or library.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return version.value // 1000, version.value % 1000 // 10


def free_memory(library: ctypes.CDLL | None) -> str:
    """Return a line about the first device's memory."""
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    if library is None or library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) != 0:
        return "memory: no device"
    error = library.cuCtxPushCurrent_v2(context) or library.cuMemGetInfo_v2(
        ctypes.byref(free), ctypes.byref(total))
    library.cuCtxPopCurrent_v2(ctypes.byref(context))
    library.cuDevicePrimaryCtxRelease_v2(0)
    if error:
        return f"memory: the driver answers with error {error}"
    lacks = f": TOO LITTLE for stage a, which needs {FREE_GIB} GiB" if (
        free.value < FREE_GIB << 30) else ""
    return (f"memory: {free.value / (1 << 30):.1f} GiB of {total.value / (1 << 30):.1f} GiB are "
            f"free{lacks}")


def glibcxx() -> tuple[int, ...] | None:
    """Return the newest version of symbols that the C++ library has."""
    try:
        ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None
    maps = Path("/proc/self/maps").read_text()
    path = next((line.split()[-1] for line in maps.splitlines() if "libstdc++" in line), None)
    found = re.findall(rb"GLIBCXX_(3\.4\.\d+)\0", Path(path).read_bytes()) if path else []
    return max((numbers(each.decode()) for each in found), default=None)


def torch_line() -> str:
    """Return a line about PyTorch: there has to be a plugin for it."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return f"PyTorch: none for {sys.executable}"
    name = "libtidepool_torch_cuda_{}_{}.so".format(*numbers(version))
    there = (measure.package() / "tidepool" / "lib" / name).exists()
    return f"PyTorch: {version}" + ("" if there else f": NOT THE ONE, there is no {name}")


def lines() -> list[str]:
    """Return what is here, a line each; what will not do is in capitals."""
    library = driver_library()
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    return [judged("driver", driver(library), DRIVER, "(driver 580 of NVIDIA's)"),
            judged("glibc", numbers(libc) or None, GLIBC, "(Red Hat 9, Debian 12, Ubuntu 22.04)"),
            judged("libstdc++", glibcxx(), GLIBCXX, "(of GCC 11)"),
            free_memory(library),
            judged("Python", sys.version_info[:2], PYTHON, ""),
            torch_line()]
