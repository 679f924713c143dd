"""Write the trace of a PyTorch memory snapshot as a log that `allocator_bench --trace=LOG` replays.

    python bench/snapshot_log.py SNAPSHOT.pickle > LOG

The snapshot is what torch.cuda.memory._dump_snapshot wrote while _record_memory_history was on. Its
trace keeps the newest entries only: max_entries has to be large enough. Pickles can run programs;
this reader refuses every pickle that is not plain data.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

HEADER = "Device,Action,Address,Size,Stream"


class _PlainData(pickle.Unpickler):
    """Loads dicts, lists, strings, numbers; nothing that has to be imported."""

    def find_class(self, module: str, name: str):
        raise pickle.UnpicklingError(f"it names {module}.{name}: no plain data")


def load(path: Path) -> dict:
    """Return a snapshot. Raises ValueError naming the file and what is wrong with it."""
    try:
        with path.open("rb") as file:
            snapshot = _PlainData(file).load()
    except (OSError, EOFError, pickle.UnpicklingError, ValueError, IndexError, KeyError,
            AttributeError, TypeError) as error:
        raise ValueError(f"{path}: {error or 'it ends early'}") from error
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces"), list):
        raise ValueError(f"{path}: a snapshot has a list 'device_traces', this has not")
    return snapshot


def lines(snapshot: dict, name: str) -> Iterator[str]:
    """Yield the log's lines. Raises ValueError naming the entry that is no trace entry."""
    yield HEADER
    for device, trace in enumerate(snapshot["device_traces"]):
        for number, entry in enumerate(trace):
            try:
                fields = (entry["action"], entry.get("addr", 0), entry["size"],
                          entry.get("stream", 0))
                action, address, size, stream = fields[0], *map(int, fields[1:])
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ValueError(f"{name}: device_traces[{device}][{number}]: {error!r}") from error
            yield f"{device},{action},{address:#x},{size},{stream:#x}"


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        for line in lines(load(Path(sys.argv[1])), sys.argv[1]):
            print(line)
    except ValueError as error:
        print(f"snapshot_log: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
