"""Loops that keep many tiny results alive, to see what Tidepool keeps for them.

Usage: bookkeeping_job.py malloc|states|dropouts

malloc prints {"malloc": int, "bookkeeping": int, "records": int}: bytes that 20,000 records add, by
malloc's count and by the statistics. What the job keeps itself is taken off: the same loop before,
while nothing is recorded.
states prints {"bookkeeping": int, "records": int} likewise, of records that draw.
dropouts prints {"samples": [int], "roots": int, "digest": text}: bytes of bookkeeping now and then,
bytes that are kept for them, and a digest of all results; it also runs without Tidepool.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import sys
from collections.abc import Callable

import torch
from limit_jobs import attached_plugin

RECORDS = 20_000
DROPOUTS = 2_500


class Mallinfo2(ctypes.Structure):
    """What glibc's mallinfo2 returns."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]


def in_use() -> int:
    """Return bytes that malloc has given out."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Mallinfo2
    info = mallinfo2()
    return info.uordblks + info.hblkhd


def statistics() -> dict:
    """Return what the plugin says, or nothing without Tidepool."""
    plugin = attached_plugin()
    return plugin.statistics()["cpu"] if plugin else {}


def compute(x: torch.Tensor, k: int) -> torch.Tensor:
    """Return the result of one operator; what it is called with differs in kind."""
    match k % 8:
        case 0: return torch.add(x, x)
        case 1: return torch.roll(x, [1, 2], [0, 1])
        case 2: return torch.div(x, 3.0, rounding_mode="floor")
        case 3: return torch.rand(700)  # more than a twister's table has: each draw has its own
        case 4: return torch.amax(x, [0])
        case 5: return torch.constant_pad_nd(x, [1, 1, 1, 1])
        case 6: return torch.randn(700)
        case _: return torch.stack([x, x, x])


def added(run: Callable[[], list]) -> tuple[int, int, int]:
    """Return what a loop adds: bytes by malloc, bytes of bookkeeping, records."""
    start, before = in_use(), statistics()
    kept = run()
    malloc, after = in_use() - start, statistics()
    del kept
    return (malloc, after["bookkeeping_bytes"] - before["bookkeeping_bytes"],
            after["records"] - before["records"])


def measured(operator: Callable[[torch.Tensor, int], torch.Tensor]) -> dict[str, int]:
    """Return what recording the loop adds."""
    x, plugin = torch.rand(4, 4), attached_plugin()

    def run(count: int = RECORDS) -> list:
        return [operator(x, k) for k in range(count)]

    run(100)  # what is made once
    plugin.recording(0)
    plain = added(run)  # the allocator keeps what it knows of so many blocks
    plugin.recording(1)
    recorded = added(run)
    malloc, bookkeeping, records = (a - b for a, b in zip(recorded, plain, strict=True))
    return {"malloc": malloc, "bookkeeping": bookkeeping, "records": records}


def dropouts() -> dict:
    """Return samples and a digest of a loop whose draws all stay alive."""
    x = torch.rand(4)
    results, samples = [], []
    for k in range(DROPOUTS):
        results.append(torch.nn.functional.dropout(x, 0.3) * 2)
        results.append(torch.rand(700))
        if k % 100 == 0:
            samples.append(statistics().get("bookkeeping_bytes", 0))
    roots = statistics().get("root_bytes", {}).get("bookkeeping_limit", 0)
    digest = hashlib.sha256()
    for result in results:
        digest.update(result.contiguous().numpy().tobytes())
    return {"samples": samples, "roots": roots, "digest": digest.hexdigest()}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if sys.argv[1] == "dropouts":
        print(json.dumps(dropouts()))
    else:
        print(json.dumps(measured({"malloc": compute,
                                   "states": lambda x, _: torch.bernoulli(x)}[sys.argv[1]])))


if __name__ == "__main__":
    main()
