"""Files of JSON objects, one a line, that stay readable whenever their writer is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path


class JsonLines:
    """Writes a new file, each line at once: a forked child inherits no half of one."""

    def __init__(self, path: Path) -> None:
        """Create the file; raise FileExistsError if it is there already."""
        self.path = path.absolute()
        with open(self.path, "xb"):
            pass

    def write(self, line: dict) -> None:
        # Nothing stays open: jobs close descriptors that are not theirs, and get them again.
        with open(self.path, "ab") as file:
            file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


def read(path: Path) -> Iterator[dict]:
    """Yield the objects of a file in order, without the last one if it is cut short."""
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
