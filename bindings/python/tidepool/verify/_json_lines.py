"""Files of JSON objects, one a line, that stay readable whenever their writer is killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path


class JsonLines:
    """Writes a new file, each line at once: a forked child inherits no half of one."""

    def __init__(self, path: Path) -> None:
        """Create the file; raise FileExistsError if it is there already."""
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o666)

    def write(self, line: dict) -> None:
        rest = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        while rest:
            rest = rest[os.write(self._descriptor, rest):]


def read(path: Path) -> Iterator[dict]:
    """Yield the objects of a file in order, without the last one if it is cut short."""
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
