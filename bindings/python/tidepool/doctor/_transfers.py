"""How fast contents come and go where `offload` puts them: a folder's disk, or the host's memory.

What is measured is what a job does: four threads, requests of 4 MiB, past the file system's cache
where that is possible (remat/tier/file_tier.h); and copies of page-locked memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

_THREADS, _REQUEST, _REQUESTS = 4, 4 << 20, 16
_SECONDS = 120  # most of which a busy machine needs to import PyTorch
# Prints bytes a second to the host and back.
_HOST_JOB = f"""
import json, time, torch
there = torch.empty({_REQUEST * _REQUESTS}, dtype=torch.uint8, device="cuda")
here = torch.empty(there.shape, dtype=torch.uint8, pin_memory=True)
def speed(to, of):
    to.copy_(of, non_blocking=True)
    torch.cuda.synchronize()
    start = time.perf_counter()
    to.copy_(of, non_blocking=True)
    torch.cuda.synchronize()
    return of.nbytes / (time.perf_counter() - start)
print(json.dumps([speed(here, there), speed(there, here)]))
"""


class CannotMeasure(Exception):
    """Nothing can be offloaded there; the message says why."""


@dataclass(frozen=True)
class Speed:
    """Bytes a second, out of the device's memory and back."""

    out: float
    back: float

    @property
    def each_way(self) -> float:
        """Return the one speed at which both ways together take as long."""
        return 2 / (1 / self.out + 1 / self.back)


def file_speed(folder: str) -> Speed:
    """Write and read 64 MiB in a folder, in a file without a name.

    Raises:
        CannotMeasure: there cannot be such a file, or the disk fails.
    """
    try:
        if _lies_in_memory(folder):
            raise CannotMeasure(f"{folder} lies in memory (tmpfs), which contents are to leave")
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            descriptor = file.fileno()
            with contextlib.suppress(OSError):  # not every file system has it
                fcntl.fcntl(descriptor, fcntl.F_SETFL,
                            fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_DIRECT)
            return _speed_of(descriptor)
    except OSError as error:
        raise CannotMeasure(f"{folder}: {error.strerror or error}") from error


def host_speed(environ: Mapping[str, str]) -> Speed:
    """Copy 64 MiB between a GPU and page-locked memory, in a process of its own.

    Raises:
        CannotMeasure: the process failed.
    """
    try:
        done = subprocess.run([sys.executable, "-c", _HOST_JOB], env=dict(environ), text=True,
                              capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise CannotMeasure(f"a copy to the host did not end within {_SECONDS} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise CannotMeasure(f"a copy to the host failed: {said[-1]}")
    return Speed(*json.loads(done.stdout.splitlines()[-1]))


def _lies_in_memory(folder: str) -> bool:
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            before, _, after = line.partition(" - ")
            if before.split()[2] == wanted:
                return after.split()[0] in ("tmpfs", "ramfs")
    return False


def _speed_of(descriptor: int) -> Speed:
    with mmap.mmap(-1, _REQUEST) as pattern:  # whole pages, as direct transfers need them
        pattern[:] = os.urandom(_REQUEST)
        out = _bytes_per_second(lambda at: _whole(os.pwritev(descriptor, [pattern], at)))

    def read(at: int) -> None:
        with mmap.mmap(-1, _REQUEST) as buffer:
            _whole(os.preadv(descriptor, [buffer], at))

    return Speed(out, _bytes_per_second(read))


def _bytes_per_second(transfer: Callable[[int], None]) -> float:
    start = time.perf_counter()
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(transfer, range(0, _REQUEST * _REQUESTS, _REQUEST)))
    return _REQUEST * _REQUESTS / (time.perf_counter() - start)


def _whole(count: int) -> None:
    if count != _REQUEST:
        raise OSError(0, f"{count} of {_REQUEST} bytes were transferred")
