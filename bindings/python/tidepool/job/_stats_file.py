"""Who writes which statistics file, and writing it whole.

A job may have several processes with the same settings. The first to attach takes the path as it
was given; the others put their process id into the name. Taking it means writing a short file that
says "running", under a lock on the folder; a file of an earlier job is replaced. A job's processes
know each other by TIDEPOOL_STATS_OWNER, which the first one (or `tidepool run`) puts into the
environment of its children.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import MutableMapping
from pathlib import Path

OWNER_VARIABLE = "TIDEPOOL_STATS_OWNER"


def new_job() -> str:
    """Return a name for a job that no other job has."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


class StatsFile:
    """The statistics file of this process."""

    def __init__(self, path: str, environ: MutableMapping[str, str]) -> None:
        """Take a file name; raise OSError where the folder cannot be written."""
        self.job = environ.setdefault(OWNER_VARIABLE, new_job())
        self.path = Path(os.path.realpath(path))
        with _folder_lock(self.path.parent):
            if _is_taken(self.path, self.job):
                self.path = self.path.with_name(
                    f"{self.path.stem}.{os.getpid()}{self.path.suffix}")
            self.write({"state": "running"})

    def write(self, content: dict) -> None:
        """Replace the file as a whole."""
        content = {"job": self.job, "pid": os.getpid(), **content}
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            temporary.write_text(json.dumps(content, indent=2) + "\n")
            os.replace(temporary, self.path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def discard(self) -> None:
        """Remove the file: the process did not attach after all."""
        self.path.unlink(missing_ok=True)


def may_replace(path: Path) -> bool:
    """Return whether there is no such file, an empty one, or one with statistics."""
    return not path.exists() or path.stat().st_size == 0 or _read(path) is not None


def _read(path: Path) -> tuple[str, int, str] | None:
    try:
        content = json.loads(path.read_text())
        return str(content["job"]), int(content["pid"]), str(content["state"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none, or nothing of ours


def _is_taken(path: Path, job: str) -> bool:
    found = _read(path)
    if found is None:
        return False
    owner, pid, state = found
    if pid == os.getpid():
        return False
    return owner == job or (state == "running" and _is_alive(pid))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def _folder_lock(folder: Path):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
