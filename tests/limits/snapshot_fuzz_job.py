"""Random snapshots, right, nearly right and no pickles at all, through bench/snapshot_log.py.

Run as `python snapshot_fuzz_job.py EXAMPLES`, in a process of its own, whose memory is limited.
Prints how many snapshots became logs and how many were refused.
"""

import pickle
import re
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import snapshot_log

LINE = re.compile(r"[0-9]+,[a-z_]+,0x[0-9a-f]+,[0-9]+,0x[0-9a-f]+")
EXAMPLES = int(sys.argv[1])
FOLDER = TemporaryDirectory()
FILE = Path(FOLDER.name, "snapshot.pickle")
counts: Counter[str] = Counter()

plain = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text() | some.binary(),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(), inner, max_size=4),
    max_leaves=8)
number = some.integers(0, 2**64 - 1) | some.integers() | plain
entries = some.fixed_dictionaries(
    {"action": some.sampled_from(["alloc", "free_completed", "oom", "segment_map"]) | some.text(),
     "size": number},
    optional={"addr": number, "stream": number, "frames": plain}) | plain
snapshots = some.fixed_dictionaries(
    {"device_traces": some.lists(some.lists(entries, max_size=6) | plain, max_size=3)},
    optional={"segments": plain}) | plain


@some.composite
def damaged(draw) -> bytes:
    """A snapshot's pickle of any protocol with some bytes changed, left out or put in."""
    content = bytearray(pickle.dumps(draw(snapshots), protocol=draw(some.integers(0, 5))))
    for _ in range(draw(some.integers(0, 4))):
        at = draw(some.integers(0, len(content)))
        left_out = draw(some.integers(0, 3))
        content[at:at + left_out] = draw(some.binary(max_size=6))
    return bytes(content)


def check(content: bytes) -> None:
    FILE.write_bytes(content)
    try:
        lines = list(snapshot_log.lines(snapshot_log.load(FILE), str(FILE)))
    except ValueError as error:
        assert str(FILE) in str(error)
        counts["refused"] += 1
        return
    assert lines[0] == snapshot_log.HEADER
    for line in lines[1:]:
        assert LINE.fullmatch(line), line
    counts["logs"] += 1


def run(strategy) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck))
    @given(strategy)
    def every(content):
        check(content)

    every()


snapshot_log.limit_memory(FILE)
run(snapshots.map(pickle.dumps))
run(damaged())
run(some.binary(max_size=60))
print(counts["logs"], counts["refused"])
