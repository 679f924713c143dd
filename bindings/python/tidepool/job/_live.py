"""Statistics of a running job for `tidepool top`: a file in shared memory, written each second.

The folder belongs to one user; each process has a file with its number. A thread writes it, as a
whole, with the statistics of now and of a second before. It is none of `threading`'s, so that a job
that counts its threads does not count it, and it holds Python's lock for well under a millisecond.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PERIOD_SECONDS = 1.0
KEYS = ("budget_bytes", "limit_bytes", "reserved_bytes", "reserved_peak_bytes", "allocated_bytes",
        "evictions", "operators_replayed", "replay_ns", "search_ns", "bookkeeping_ns",
        "step_searches", "step_plans", "num_ooms")


def folder() -> Path:
    """Return the folder of this user's jobs; it need not be there."""
    shared = Path("/dev/shm")
    usable = os.access(shared, os.W_OK | os.X_OK)
    return (shared if usable else Path(tempfile.gettempdir())) / f"tidepool-{os.getuid()}"


class LiveFile:
    """Writes this process's file until it is closed."""

    def __init__(self, statistics: Callable[[], dict], place: Path | None = None) -> None:
        """Take where statistics by device come from.

        Raises:
            OSError: the folder cannot be used, or is another user's.
        """
        self._statistics = statistics
        self._folder = place or folder()
        self._path = self._folder / str(os.getpid())
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._folder.lstat().st_uid != os.getuid():
            raise PermissionError(f"{self._folder} belongs to another user")
        self._head = {"pid": os.getpid(), "started": start_time(os.getpid()),
                      "rank": rank(), "command": _command()}
        self._samples: list[dict] = []
        self._lock = threading.Lock()  # no file is written once it has been removed
        self._closed = threading.Event()

    def start(self) -> None:
        """Write now, and each second from now on."""
        self.write()
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # as the disk is full, or the process ends
            while not self._closed.wait(PERIOD_SECONDS):
                self.write()

    def write(self) -> None:
        """Replace the file as a whole."""
        devices = {name: {key: values.get(key, 0) for key in KEYS}
                   for name, values in self._statistics().items()}
        self._samples = [*self._samples[-1:], {"at": time.monotonic(), "devices": devices}]
        temporary = self._path.with_name(f".{self._path.name}")
        with self._lock:
            if not self._closed.is_set():
                temporary.write_text(json.dumps({**self._head, "samples": self._samples}))
                os.replace(temporary, self._path)

    def close(self) -> None:
        """Remove the file."""
        with self._lock:
            self._closed.set()
            self._path.unlink(missing_ok=True)


def jobs(place: Path | None = None) -> Iterator[dict]:
    """Yield what the files of living processes say, by process; remove those of dead ones."""
    try:
        paths = sorted((path for path in (place or folder()).iterdir() if path.name.isdecimal()),
                       key=lambda path: int(path.name))
    except OSError:
        return
    for path in paths:
        try:
            content = json.loads(path.read_text())
            alive = start_time(content["pid"]) == content["started"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # gone, or nothing of ours
        if alive:
            yield content
        else:
            path.unlink(missing_ok=True)


def rank() -> str | None:
    """Return this process's number among those of a distributed job, which launchers give it."""
    text = os.environ.get("RANK", "")
    return text if text.isascii() and text.isdecimal() else None


def start_time(pid: int) -> str | None:
    """Return when a process started, in the system's own unit; None if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()  # its name may have blanks
    return None if state in "ZX" else fields[18]


def _command() -> list[str]:
    try:
        words = Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]
        return [word.decode(errors="replace") for word in words]
    except OSError:
        return list(sys.argv)
