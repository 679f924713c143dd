"""Which process of a job writes which trace file, or recording.

The first one takes the path as it was given; others, and those that they start, put their process
id into the name. They know each other by TIDEPOOL_TRACE_OWNER, which the first one (or `tidepool
run`) puts into the environment of its children.
"""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

from ._catalog import EXPECTED

OWNER_VARIABLE = "TIDEPOOL_TRACE_OWNER"
_STARTS = (b"\x1f\x8b", b'{"tidepool_trace"')  # of a compressed file, and of a trace
RECORD_STARTS = (b"TideWork", b"\0" * 8)  # the latter while another process begins one


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


def may_replace(path: Path, starts: tuple[bytes, ...] = _STARTS) -> bool:
    """Return whether there is no such file, an empty one, or one that may be a trace of ours."""
    try:
        with path.open("rb") as file:
            start = file.read(len(max(starts, key=len)))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not start or start.startswith(starts)


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
