"""What a step takes in energy when a plan is followed: counted from what the simulation does.

The table is that of remat/plan/search/energy_table.h: watts by the kind of operator, and joules
for a byte that is copied.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

_CUT = "tidepool::cut"  # contents that change unseen: no call in a history


def of_history(trace: Path, history: Iterable[str], table: dict) -> float:
    """Return the energy of the history's last iteration, as a multiple of the operators' own.

    Args:
        history: lines of `tidepool-replay --history`.
    """
    calls = list(_energies_nj(trace, table))
    base = sum(calls)
    total = base
    for line in history:
        words = line.split()
        if words[0] == "iteration":
            total = base
        elif words[1] == "replay":
            total += calls[int(words[2])]
        elif words[1] == "copy":
            total += int(words[2]) * table.get("joules_per_byte", 0) * 1e9
    return total / (base or 1)


def _energies_nj(trace: Path, table: dict) -> Iterator[float]:
    """Yield what each call of a trace takes."""
    watts, default = table.get("operators", {}), table["watts"]
    content = trace.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    for line in content.splitlines():
        event = json.loads(line)
        if "op" in event and event["op"] != _CUT:
            yield event["ns"] * watts.get(event["op"], default)
