"""One summary for a job of several processes, such as the ranks that torchrun starts.

The first process of a job that attaches puts itself into the environment of those that it starts.
While it lives, each of them tells it its statistics at the end, by a file in this user's folder,
and prints nothing; the first one, which ends last, says them all in one line. A process whose first
one is gone speaks for itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import MutableMapping
from pathlib import Path

from . import _live

FIRST_VARIABLE = "TIDEPOOL_FIRST_PROCESS"  # its number and when it started
# These are not summed: of the first ones the greatest counts, and the others are shares, of which
# it is the mean over what they are shares of.
_MOST = ("_peak_bytes", "budget_bytes", "limit_bytes", "longest_plan", "_error_most")
_SHARES = {"foreseen_time_error": "foreseen_steps", "foreseen_bytes_error": "foreseen_steps"}


def join(environ: MutableMapping[str, str]) -> str | None:
    """Return the job's first process; None if it is this one, which the environment then names."""
    this = _name(os.getpid())
    first = environ.get(FIRST_VARIABLE, "")
    if first != this and _lives(first):
        return first
    environ[FIRST_VARIABLE] = this
    return None


def tell(first: str, devices: dict, place: Path | None = None) -> bool:
    """Leave statistics by device for the job's first process; False: it would not read them."""
    if not _lives(first):
        return False
    folder = (place or _live.folder()) / f"told-{first}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.lstat().st_uid != os.getuid():
            return False
        temporary = folder / f".{os.getpid()}"
        temporary.write_text(json.dumps({"pid": os.getpid(), "rank": _live.rank(),
                                         "devices": devices}))
        os.replace(temporary, folder / str(os.getpid()))
    except OSError:
        return False
    return True


def told(place: Path | None = None) -> list[dict]:
    """Return what processes have told this one, by rank; remove it, and what nobody will read."""
    found = []
    for folder in (place or _live.folder()).glob("told-*"):
        name = folder.name.partition("-")[2]
        if name == _name(os.getpid()):
            for path in folder.glob("[0-9]*"):
                with contextlib.suppress(OSError, ValueError):
                    found.append(json.loads(path.read_text()))
        elif _lives(name):
            continue
        shutil.rmtree(folder, ignore_errors=True)
    return sorted(found, key=lambda each: (each["rank"] is None, int(each["rank"] or each["pid"])))


def together(processes: list[dict]) -> dict:
    """Return the statistics of several processes as of one: sums, and of peaks the greatest."""
    out: dict = {}
    for devices in processes:
        for name, values in devices.items():
            _add(out.setdefault(name, {}), values)
    return out


def _add(sums: dict, values: dict) -> None:
    for key, whole in _SHARES.items():
        if key in values:
            before, more = sums.get(whole, 0), values.get(whole, 0)
            mean = before * sums.get(key, 0) + more * values[key]
            sums[key] = mean / (before + more) if before + more else 0
    for key, value in values.items():
        if isinstance(value, dict):
            _add(sums.setdefault(key, {}), value)
        elif key in _SHARES:
            continue
        elif isinstance(value, int | float) and not isinstance(value, bool):
            before = sums.get(key, 0)
            sums[key] = max(before, value) if key.endswith(_MOST) else before + value


def did_something(devices: dict) -> bool:
    """Return whether a process worked on tensors, which a launcher does not."""
    return any(values.get("evictions") or values.get("reserved_peak_bytes")
               for values in devices.values())


def _name(pid: int) -> str:
    return f"{pid}-{_live.start_time(pid)}"


def _lives(name: str) -> bool:
    pid = name.partition("-")[0]
    return pid.isdecimal() and _name(int(pid)) == name
