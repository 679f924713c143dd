"""Whatever call of the device or of a file fails under a tier: the same bits, or an error; no leak.

The usual run lets a few of the calls fail, TIDEPOOL_FULL=1 each of them.
"""

import json
import tempfile
from pathlib import Path

import pytest
import standin
from selection import FULL
from test_libraries import compile_library

ROOT = Path(__file__).resolve().parents[2]
ENVIRON = (("CUBLAS_WORKSPACE_CONFIG", ":16:8"), ("CUBLASLT_WORKSPACE_SIZE", "0"))
DEVICE = {"memory": "2GiB", "granularity": "64KiB"}
# By tier: groups of faults, each swept in one process, and one in how many calls the usual run
# tries.
HOST, CHAIN = "host:64MiB", "host:512KiB,file:{}:64MiB"
SWEEPS = [
    (HOST, ("host_alloc:fails", "host_alloc:fails:999999", "stream_create:fails"), 1),
    (HOST, ("copy:fails", "stream_wait:fails", "event_record:fails"), 449),
    (CHAIN, ("write:ENOSPC", "read:EIO", "write:kill", "read:bits"), 13),
]
if FULL:
    SWEEPS += [
        *[(HOST, (f"{call}:fails",), 1)
          for call in ("event_create", "event_query", "synchronize", "create", "map", "access",
                       "unmap", "release", "malloc")],
        *[(CHAIN, (f"{call}:fails",), 1)
          for call in ("host_alloc", "copy", "stream_wait", "event_record", "synchronize")],
        *[(CHAIN, (fault,), 1)
          for fault in ("host_alloc:fails:999999", "write:EIO:999", "write:half", "write:odd",
                        "write:nothing", "write:EINTR", "write:bits", "write:signal",
                        "read:EIO:999", "read:half", "read:odd", "read:nothing", "read:EINTR",
                        "read:signal", "read:kill")],
    ]
SWEEPS = [(tier, group, every) for tier, faults, every in SWEEPS
          for group in ([(fault,) for fault in faults] if FULL else [faults])]
HARMLESS = ("half", "EINTR", "signal")


@pytest.mark.parametrize(("tier", "faults", "every"), [
    pytest.param(*sweep, id=" ".join([sweep[0].split(",")[-1].split(":")[0], *sweep[1]]),
                 marks=[pytest.mark.torch_floor] if sweep[0] is CHAIN else []) for sweep in SWEEPS])
def test_a_call_fails(jobs, summary, tier, faults, every):
    library = compile_library(ROOT / "tests/support/disk_faults.c", "-ldl")
    preloaded = f"{standin.environment()['LD_PRELOAD']} {library}"
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:  # on a disk
        done = jobs.run("fault_sweep_jobs.py", tier.format(folder), "1" if FULL else str(every),
                        *faults, environ=(*ENVIRON, ("LD_PRELOAD", preloaded)), seconds=7200,
                        **DEVICE)
        assert list(Path(folder).iterdir()) == []
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["fault"] for each in found] == list(faults)
    summary("faults under a tier on the stand-in device",
            *(f"{tier.split(',')[-1].split(':')[0]}, {each['fault']}: {each['tried']} of "
              f"{each['calls']} calls, {each['ends']}" for each in found))
    for each in found:
        fault = each["fault"].split(":")[1]
        assert each["problems"] == []
        assert each["tried"] > 0
        if fault in HARMLESS:
            assert each["ends"].keys() == {"well"}
        if fault == "kill":
            assert each["ends"].keys() == {"killed"}
        if each["fault"].startswith("read:") and fault not in (*HARMLESS, "kill"):
            # A copy that was to come back before it is read is read again when it is.
            assert "RuntimeError" in each["ends"]
            assert each["ends"].keys() <= {"RuntimeError", "well"}
