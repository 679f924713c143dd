"""Sweeps: the same small job again and again, each time with another call that goes wrong.

Each job is a forked child of a process that has imported torch and is not attached, so that a job
takes a fraction of a second.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

# Faults of disk_faults.c that a job has to get over.
HARMLESS = ("EINTR", "half", "signal")


class DiskFaults:
    """Steers disk_faults.c, which is preloaded into this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        for name in ("calls", "hits"):
            getattr(self._library, f"disk_faults_{name}").restype = ctypes.c_long

    def choose(self, call: str, fault: str, first: int, count: int = 1) -> None:
        """Let so many calls go wrong, the first one being the `first` from now on."""
        self._library.disk_faults_choose(call.encode(), fault.encode(), ctypes.c_long(first),
                                         ctypes.c_long(count))

    def clear(self) -> None:
        """Let no call go wrong any more."""
        self.choose("", "", 0, 0)

    def calls(self) -> int:
        """Return how many calls of the chosen kind there were."""
        return self._library.disk_faults_calls()

    def hits(self) -> int:
        """Return how many calls went wrong."""
        return self._library.disk_faults_hits()


def in_child(action: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run a job in a forked child.

    Returns:
        What it returns, and `status`, the child's: below 0 for a signal; `trace` if it raised.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            said = json.dumps(action())
            status = 0
        except BaseException:
            said = json.dumps({"trace": traceback.format_exc()})
        with os.fdopen(writing, "w") as out:
            out.write(said)
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as results:
        text = results.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {**(json.loads(text) if text else {}), "status": status}


def attempt(steps: Iterator[Any]) -> dict[str, Any]:
    """Go through a job's steps; return what they gave and the error that ended them, if one did."""
    done: list[Any] = []
    error = ""
    try:
        done.extend(steps)
    except (Exception, KeyboardInterrupt) as raised:
        error = f"{type(raised).__name__}: {raised}"
    gc.collect()
    return {"steps": done, "error": error}


def sweep(job: Callable[[int], dict[str, Any]], judge: Callable[[dict[str, Any]], str],
          every: int) -> dict[str, Any]:
    """Run a job with a fault at its first call, at the one `every` later, and so on to its last.

    Args:
        job: runs with the fault at its n-th call. Has in `hits` whether there was one, and in
            `calls` how many there were.
        judge: returns what is wrong with what it returned, or nothing.

    Returns:
        How many calls a job without a fault had and how many were tried, how jobs ended, and what
        was wrong.
    """
    ends: Counter[str] = Counter()
    problems: list[str] = []
    n = 1
    while (found := job(n)).get("hits", 1):
        ended = "killed" if found["status"] < 0 else found.get("error", "").split(":")[0] or "well"
        ends[ended] += 1
        if wrong := judge(found):
            problems.append(f"call {n}: {wrong}: {json.dumps(found)[:1500]}")
        n += every
    if found["status"] != 0:
        problems.append(f"call {n}: {found}")
    return {"calls": found.get("calls", 0), "tried": sum(ends.values()), "ends": ends,
            "problems": problems}


def wrong_ending(found: dict[str, Any], plain: list[Any], fault: str, folder: str) -> str:
    """Return what is wrong with how a job has ended, whatever the fault was at, or nothing.

    Args:
        found: what `in_child` returned of it, with the `steps` and the `error` of `attempt`.
        plain: the steps without a fault.
        folder: where the tier has its file; "" if it has none.
    """
    if folder and os.listdir(folder):
        return "something is left on the disk"
    if fault == "kill":
        return "" if found["status"] == -signal.SIGKILL else "it was not killed"
    if found["status"] != 0:
        return "it died"
    if plain[:len(found["steps"])] != found["steps"]:
        return "other bits"
    if not found["error"] and len(found["steps"]) < len(plain):
        return "steps are missing"
    return ""


def try_each(text: str, plain: list[Any], every: int, folder: str,
             run: Callable[[str, str, int, int], dict[str, Any]],
             judge: Callable[[dict[str, Any], list[Any], str, str], str]) -> dict[str, Any]:
    """Sweep over the calls that a fault can have, as `sweep` says.

    Args:
        text: CALL:FAULT, or CALL:FAULT:COUNT where so many calls go wrong.
        run: trains, in a child, given the call, the fault, the first call and their count.
        judge: returns what else is wrong, given what came of it, `plain`, the call and the fault.
    """
    call, fault, *count = text.split(":")

    def job(n: int) -> dict[str, Any]:
        return in_child(lambda: run(call, fault, n, int((*count, 1)[0])))

    def wrong(found: dict[str, Any]) -> str:
        ending = wrong_ending(found, plain, fault, folder)
        return ending if ending or fault == "kill" else judge(found, plain, call, fault)

    return sweep(job, wrong, every)
