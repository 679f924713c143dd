"""Where a file may be written: at a path with nothing, or with a regular file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OF_THE_SYSTEM = ("/dev/", "/proc/", "/sys/")
_SHARED_MEMORY = "/dev/shm/"  # a file system like others


def obstacle(path: str | Path) -> str | None:
    """Return why no file can be written in the place of what is at a path; None: it can.

    What is there is never opened: a pipe would wait, and a device may do anything.
    """
    full = os.path.abspath(path)
    if full.startswith(_OF_THE_SYSTEM) and not full.startswith(_SHARED_MEMORY):
        return "is of the system, expected a file's path"
    try:
        mode = os.stat(full).st_mode
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return f"cannot be a file's path: {getattr(error, 'strerror', None) or error}"
    return None if stat.S_ISREG(mode) else "is no regular file"
