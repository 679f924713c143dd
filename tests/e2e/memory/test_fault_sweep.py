"""Whatever call of the tier's file goes wrong: the same bits, or an error that says so; no leak.

The usual run lets a few of the calls go wrong, TIDEPOOL_FULL=1 each of them.
"""

import json
import sys
import tempfile
from pathlib import Path

import harness
import pytest
from selection import FULL
from test_libraries import compile_library

TESTS = harness.HERE.parent
FAULTS = ("write:ENOSPC", "write:half", "write:odd", "write:nothing", "write:signal", "write:kill",
          "read:EIO", "read:bits", "read:EINTR", "file:EOPNOTSUPP", "file:EIO:2")
# Ends of jobs by fault, where all tried calls need not have the same.
WELL, NO_MEMORY, NOT_READ = {"well"}, {"OutOfMemoryError", "well"}, {"RuntimeError"}
MORE = ("write:EIO", "write:ENOSPC:999", "write:EINTR", "write:bits", "write:interrupt",
        "read:EIO:999", "read:half", "read:odd", "read:nothing", "read:signal", "read:interrupt",
        "read:kill")
EVERY = 1 if FULL else 53
ENDS = {"write": {"half": WELL, "EINTR": WELL, "signal": WELL, "bits": {"RuntimeError", "well"}},
        "read": {"half": WELL, "EINTR": WELL, "signal": WELL},
        "file": {"EOPNOTSUPP": WELL, "EIO": {"AttachError"}}}


def expected_ends(call: str, fault: str) -> set[str]:
    """Return how jobs with this fault may end."""
    if fault in ("kill", "interrupt"):
        return {"killed" if fault == "kill" else "KeyboardInterrupt"}
    return ENDS[call].get(fault, NO_MEMORY if call == "write" else NOT_READ)


@pytest.mark.torch_floor
def test_a_call_of_the_file_goes_wrong(summary):
    faults = (*FAULTS, *MORE) if FULL else FAULTS
    library = compile_library(TESTS / "support/disk_faults.c", "-ldl")
    with tempfile.TemporaryDirectory(dir=TESTS.parent / "build") as folder:
        done = harness.run([sys.executable, str(harness.HERE / "memory/fault_sweep_job.py"),
                            folder, str(EVERY), *faults], seconds=3600, LD_PRELOAD=str(library))
        assert list(Path(folder).iterdir()) == []
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["fault"] for each in found] == list(faults)
    summary("faults of the tier's file", *(
        f"{each['fault']}: {each['tried']} of {each['calls']} calls, {each['ends']}"
        for each in found))
    for each in found:
        call, fault = each["fault"].split(":")[:2]
        assert each["problems"] == []
        assert each["ends"].keys() <= expected_ends(call, fault), each
        assert each["tried"] >= (1 if call == "file" else 30 // EVERY), each
        if call == "write" and expected_ends(call, fault) is NO_MEMORY:
            assert each["ends"]["OutOfMemoryError"] > 0
