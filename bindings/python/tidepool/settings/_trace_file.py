"""Which process of a job writes which trace file, or recording.

The first one takes the path as it was given; others, and those that they start, put their process
id into the name. They know each other by TIDEPOOL_TRACE_OWNER, which the first one (or `tidepool
run`) puts into the environment of its children.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import BinaryIO

from ._catalog import EXPECTED

OWNER_VARIABLE = "TIDEPOOL_TRACE_OWNER"
_TRACE_START = b'{"tidepool_trace"'
_COMPRESSED_START = b"\x1f\x8b"
_RECORD_START = b"TideWork"
_READ_BYTES = 1 << 16


def is_first(environ: MutableMapping[str, str]) -> bool:
    """Return whether no process of the job has written any; the environment says so from now on."""
    first = OWNER_VARIABLE not in environ
    environ.setdefault(OWNER_VARIABLE, str(os.getpid()))
    return first


def claim(path: str, first: bool) -> Path:
    """Return the absolute path that this process writes to, the first of its job or another one.

    Where nothing can be written the path is returned as it was: the recorder says why.
    """
    target = Path(os.path.abspath(path))
    if first:
        return target
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except FileExistsError:
        stem, dot, ending = target.name.partition(".")
        return target.with_name(f"{stem}.{os.getpid()}{dot}{ending}")
    except OSError:
        pass
    return target


def may_replace(path: Path) -> bool:
    """Return whether there is no such file, an empty one, or a trace, perhaps a compressed one."""
    return _may_replace(path, _is_trace)


def may_replace_recording(path: Path) -> bool:
    """Return whether there is no such file, or a recording: also one that was only begun."""
    return _may_replace(path, _is_recording)


def _may_replace(path: Path, is_ours: Callable[[bytes, BinaryIO], bool]) -> bool:
    try:
        with path.open("rb") as file:
            start = file.read(_READ_BYTES)
            return not start or is_ours(start, file)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _is_trace(start: bytes, _: BinaryIO) -> bool:
    if start.startswith(_COMPRESSED_START):
        try:
            found = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(start, len(_TRACE_START))
        except zlib.error:
            return False
        return found == _TRACE_START or (not found and len(start) < _READ_BYTES)
    return start.startswith(_TRACE_START)


def _is_recording(start: bytes, file: BinaryIO) -> bool:
    if start.startswith(_RECORD_START):
        return True
    while start and not start.strip(b"\0"):  # a file of zeros has nothing to lose
        start = file.read(_READ_BYTES)
    return not start


def name_of(path: str) -> str:
    """Return what reports call a trace with this path: its name without endings."""
    return Path(path).name.partition(".")[0] or "job"


def steps_in(text: str) -> tuple[int, int | None]:
    """Return the first and the last step of "FIRST", "FIRST:" or "FIRST:LAST"; None: no last one.

    Raises:
        ValueError: it is none of these.
    """
    found = re.fullmatch(r"([0-9]+)(:([0-9]*))?", text)
    first = int(found[1]) if found else 0
    last = (int(found[3]) if found[3] else None) if found and found[2] else first
    if first == 0 or (last is not None and last < first):
        raise ValueError(f"expected {EXPECTED['FIRST[:LAST]']}")
    return first, last
