"""`tidepool top`: what running jobs hold, evict and lose, from the files that they write."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ..job import _live
from ..settings import _sizes
from . import _table

FOUND, NONE_FOUND = 0, 1
_SILENT_SECONDS = 5  # a job that says nothing for so long is not running Python
_COMMAND_COLUMNS = 40
_LOST = ("replay_ns", "search_ns", "bookkeeping_ns")
_CLEAR = "\x1b[H\x1b[J"


def measurements(content: dict, now: float) -> list[dict]:
    """Return what a job's file says of each device, with rates between its two samples."""
    first, last = content["samples"][0], content["samples"][-1]
    seconds = last["at"] - first["at"]
    found = []
    for name, values in last["devices"].items():
        before = first["devices"].get(name, dict.fromkeys(values, 0))
        change = {key: values[key] - before[key] for key in values}
        rates = {"evictions_per_second": change["evictions"],
                 "replays_per_second": change["operators_replayed"],
                 "share_lost": sum(change[key] for key in _LOST) / 1e9}
        found.append({
            "pid": content["pid"], "rank": content["rank"], "command": content["command"],
            "device": name, "silent_seconds": max(0.0, now - last["at"]), **values,
            **{key: change / seconds if seconds else 0.0 for key, change in rates.items()}})
    return found


def table(found: Iterable[dict]) -> str:
    """Return measurements as text."""
    found = list(found)
    ranked = any(each["rank"] is not None for each in found)
    rows = [["pid", *(["rank"] if ranked else []), "device", "budget", "held", "peak",
             "evictions/s", "replays/s", "lost", "plans", "command"]]
    for each in found:
        budget = min(each["budget_bytes"], each["limit_bytes"] or each["budget_bytes"])
        silent = (f" (silent for {each['silent_seconds']:.0f} s)"
                  if each["silent_seconds"] > _SILENT_SECONDS else "")
        command = " ".join(each["command"])
        if len(command) > _COMMAND_COLUMNS:
            command = f"…{command[1 - _COMMAND_COLUMNS:]}"
        rows.append([str(each["pid"]), *([str(each["rank"] or "")] if ranked else []),
                     each["device"], _size(budget), _size(each["reserved_bytes"]),
                     _size(each["reserved_peak_bytes"]), f"{each['evictions_per_second']:.1f}",
                     f"{each['replays_per_second']:.1f}", f"{100 * each['share_lost']:.1f} %",
                     str(each["step_plans"]), command + silent])
    numbers = range(3 if ranked else 2, 10 if ranked else 9)
    return _table.aligned(rows, right=(0, *numbers))


def _size(size: int) -> str:
    return _sizes.format_size(size, exact=False)


def look(pid: int | None, place: Path | None = None,
         clock: Callable[[], float] = time.monotonic) -> list[dict]:
    """Return what all jobs, or one process, say now."""
    return [each for content in _live.jobs(place) if pid in (None, content["pid"])
            for each in measurements(content, clock())]


def main(pid: int | None, once: bool, as_json: bool) -> int:
    """Show jobs until interrupted, or once; return the exit status."""
    once = once or as_json or not sys.stdout.isatty()
    try:
        while True:
            found = look(pid)
            none = ("no job found: start it by `tidepool run --top`, or with TIDEPOOL_TOP=1"
                    if pid is None else f"process {pid} is no running job with `--top`")
            if as_json:
                print(json.dumps(found, indent=2), flush=True)
            elif once:
                print(table(found) if found else none,
                      file=sys.stdout if found else sys.stderr, flush=True)
            else:
                print(f"{_CLEAR}{table(found) if found else none}\n\nCtrl-C ends this", flush=True)
            if once:
                return FOUND if found else NONE_FOUND
            time.sleep(_live.PERIOD_SECONDS)
    except KeyboardInterrupt:
        return FOUND
