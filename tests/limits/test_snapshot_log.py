"""A recorded PyTorch job, from its snapshot to a replay by the allocator's benchmarks."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import standin
from limits_support import HERE, ROOT, TIMEOUT_SECONDS
from selection import FULL

CONVERTER = ROOT / "bench" / "snapshot_log.py"
BENCH = ROOT / "build" / "dev" / "bench" / "tidepool_allocator_bench"
JOB = """
import sys, torch
torch.cuda.memory._record_memory_history(max_entries=100000)
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4))).cuda()
for _ in range(3):
    model(torch.empty(64, 256, device="cuda")).sum().backward()
torch.cuda.memory._dump_snapshot(sys.argv[1])
"""


def convert(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(CONVERTER), str(path)], text=True,
                          capture_output=True, timeout=TIMEOUT_SECONDS)


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BENCH), *arguments], text=True, capture_output=True,
                          timeout=TIMEOUT_SECONDS)


def test_a_recorded_job_is_replayed(tmp_path):
    snapshot = tmp_path / "job.pickle"
    environ = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = standin.run(["-c", JOB, str(snapshot)], environ=environ, memory="1GiB")
    assert done.returncode == 0, done.stderr[-2000:]
    log = convert(snapshot)
    assert log.returncode == 0, log.stderr
    assert log.stdout.count(",alloc,") > 30
    path = tmp_path / "job.csv"
    path.write_text(log.stdout)
    done = bench("--smoke", f"--trace={path}", "--benchmark_filter=replay.*job")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("replay<")]
    assert len(rows) == 2
    assert all("smallest_MiB=" in row and "ERROR" not in row for row in rows)


def test_a_log_with_a_fault_is_named(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("Device,Action,Address,Size,Stream\n0,alloc,0x1,eight,0x0\n")
    done = bench(f"--trace={path}")
    assert done.returncode == 2
    assert f"{path}:2: Size: 'eight' is no number" in done.stderr
    assert "cannot be opened" in bench("--trace=no/such/file").stderr


@pytest.mark.long
def test_random_snapshots_become_logs_or_are_refused():
    job = [sys.executable, str(HERE / "snapshot_fuzz_job.py"), "20000" if FULL else "400"]
    done = subprocess.run(job, text=True, capture_output=True, timeout=4 * TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    logs, refused = map(int, done.stdout.split())
    assert logs > 50 and refused > 400


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(("content", "error"), [
    (pickle.dumps(Evil()), "no plain data"),
    (pickle.dumps({"segments": []}), "a list 'device_traces'"),
    (pickle.dumps([1]), "a list 'device_traces'"),
    (b"", "Ran out of input"),
    (b"not a pickle", "bad.pickle: "),
    (pickle.dumps({"device_traces": [[{"action": "alloc"}]]}), "device_traces[0][0]: KeyError"),
    (pickle.dumps({"device_traces": [7]}), "device_traces[0]: expected a list"),
    (pickle.dumps({"device_traces": [[7]]}), "device_traces[0][0]: TypeError"),
    (pickle.dumps({"device_traces": [[{"action": "oom", "size": float("inf")}]]}), "size: "),
    (pickle.dumps({"device_traces": [[{"action": "oom", "size": -1}]]}), "size: expected"),
    (pickle.dumps({"device_traces": [[{"action": "a\n", "size": 1}]]}), "action: expected a name"),
    (b"\x80\x04}r\xff\xff\xff\xff.", "MemoryError"),  # a memo of 64 GiB
    (b"\x80\x04\x8e" + b"\xff" * 8, "bad.pickle: "),
])
def test_what_is_no_snapshot_is_refused(tmp_path, content, error):
    path = tmp_path / "bad.pickle"
    path.write_bytes(content)
    done = convert(path)
    assert done.returncode == 1
    assert error in done.stderr and str(path) in done.stderr
    assert "Traceback" not in done.stderr
