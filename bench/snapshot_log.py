"""Write the trace of a PyTorch memory snapshot as a log that `allocator_bench --trace=LOG` replays.

    python bench/snapshot_log.py SNAPSHOT.pickle > LOG

The snapshot is what torch.cuda.memory._dump_snapshot wrote while _record_memory_history was on. Its
trace keeps the newest entries only: max_entries has to be large enough. Pickles can run programs,
and a few bytes of one can ask for any amount of memory: this reader refuses every pickle that is
not plain data, and as a program takes no more memory than a snapshot of that size can need.
"""

from __future__ import annotations

import pickle
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

HEADER = "Device,Action,Address,Size,Stream"
_ACTION = re.compile("[a-z_]+")


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
            AttributeError, TypeError, OverflowError, MemoryError, NotImplementedError,
            RecursionError) as error:
        raise ValueError(f"{path}: {str(error) or repr(error)}") from error
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces"), list):
        raise ValueError(f"{path}: a snapshot has a list 'device_traces', this has not")
    return snapshot


def lines(snapshot: dict, name: str) -> Iterator[str]:
    """Yield the log's lines. Raises ValueError naming the entry that is no trace entry."""
    yield HEADER
    for device, trace in enumerate(snapshot["device_traces"]):
        if not isinstance(trace, list):
            raise ValueError(f"{name}: device_traces[{device}]: expected a list")
        for number, entry in enumerate(trace):
            try:
                yield f"{device},{_fields(entry)}"
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{name}: device_traces[{device}][{number}]: {error!r}") from error


def _fields(entry: dict) -> str:
    """Return a line without its device. Raises KeyError, TypeError or ValueError."""
    if not isinstance(entry, dict):
        raise TypeError("expected a dict")
    action, size = entry["action"], entry["size"]
    numbers = {"addr": entry.get("addr", 0), "size": size, "stream": entry.get("stream", 0)}
    if not isinstance(action, str) or not _ACTION.fullmatch(action):
        raise ValueError("action: expected a name")
    for key, value in numbers.items():
        if type(value) is not int or not 0 <= value < 2**64:
            raise ValueError(f"{key}: expected a whole number of 64 bits")
    return f"{action},{numbers['addr']:#x},{size},{numbers['stream']:#x}"


def limit_memory(path: Path) -> None:
    """Let this process have no more memory than a snapshot of this size can need."""
    size = path.stat().st_size if path.exists() else 0
    limit = 2 * 2**30 + 64 * size
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        limit = min(limit, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        limit_memory(Path(sys.argv[1]))
        for line in lines(load(Path(sys.argv[1])), sys.argv[1]):
            print(line)
    except ValueError as error:
        print(f"snapshot_log: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
