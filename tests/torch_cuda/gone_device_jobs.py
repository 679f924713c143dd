"""Goes on where the device answers no more, and prints what happened as one line of JSON.

    python gone_device_jobs.py NAME
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin
import torch

MIB = 1 << 20
device = standin.Device()


def block(mib: int) -> torch.Tensor:
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def error_of(work) -> str:
    """Return the first line of the error that work raises."""
    try:
        work()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "none"


def broken() -> dict:
    """A kernel breaks the context; evictable tensors are there."""
    kept = [torch.ones(MIB, device="cuda") * number for number in range(4)]
    device.set(fail="launch:1=700")
    facts = {"launch": error_of(lambda: kept[0] + 1), "memory": error_of(lambda: block(30)),
             "again": error_of(lambda: block(30)), "kept": len(kept)}
    return {**facts, "refusals": tidepool_says("device_refusals")}


def tidepool_says(name: str) -> int:
    import tidepool

    return tidepool.stats()["devices"]["cuda:0"][name]


def in_a_child(work) -> int:
    """Return the exit status of work in a forked child; -N for a signal."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = work()
        if status is not None:
            os._exit(status)
        sys.exit(0)  # with all that Python does at its end
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def forked() -> dict:
    """Children free what the parent has on its device, ask about it, or just end."""
    side = torch.cuda.Stream()
    kept = [torch.ones(MIB, device="cuda") * number for number in range(4)]
    kept += [torch.ones(MIB, device=f"cuda:{k}") * 2 for k in range(1, torch.cuda.device_count())]
    device.set(late=1000)
    with torch.cuda.stream(side):
        kept[1].add_(1)
    kept[1].record_stream(side)

    def frees() -> int:
        kept.clear()
        gc.collect()
        return 0 if int((torch.arange(1000) * 2).sum()) == 999000 else 1

    def asks() -> int:
        torch.cuda.memory_stats()
        return 0 if tidepool_says("outside_bytes") == 0 else 1

    def allocates() -> int:
        return 0 if "initialization error" in error_of(lambda: torch.cat(kept[:4])) else 1

    works = [frees, asks]
    if not torch.__version__.startswith("2.11."):  # it ends a child that computes
        works.append(allocates)
    facts = {"children": [in_a_child(work) for work in works]}
    facts["ends"] = in_a_child(lambda: None)
    device.set(late=0)
    return {**facts, "parent": float((kept[2] + kept[3]).sum()) >= 0}


class LastCaller:
    """Frees its tensor when Python's modules have gone, or not at all."""

    tensors: ClassVar[list[torch.Tensor]] = []


def ended() -> dict:
    """The process ends with tensors, streams and events alive, and a thread that waits."""
    import threading

    side = torch.cuda.Stream()
    LastCaller.tensors = [torch.ones(MIB, device="cuda") * number for number in range(4)]
    with torch.cuda.stream(side):
        LastCaller.tensors[1].add_(1)
    LastCaller.tensors[1].record_stream(side)
    device.set(late=1000)
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    return {"alive": len(LastCaller.tensors)}


def pinned() -> dict:
    """Page-locked memory comes to an end; what is pageable goes on."""
    device.set(host_memory="1MiB")
    x = torch.ones(MIB, device="cuda")
    return {"pinned": error_of(lambda: torch.ones(MIB).pin_memory()),
            "copied": (x * 2).cpu().numel() // MIB, "small": torch.ones(10).pin_memory().numel()}


def main() -> None:
    torch.cuda.init()
    found = {"broken": broken, "forked": forked, "ended": ended, "pinned": pinned}[sys.argv[1]]()
    print(json.dumps({**found, "misuses": device.misuses()}), flush=True)


if __name__ == "__main__":
    main()
