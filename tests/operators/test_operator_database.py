"""PyTorch's operator database under chaos at every allocation: bits equal, forward and backward.

Normal runs take the first two float32 samples of each operator (about half a minute on two
cores); TIDEPOOL_FULL=1 takes all samples and more types.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

JOB = Path(__file__).with_name("database_job.py")
FULL = os.environ.get("TIDEPOOL_FULL") == "1"
SAMPLES = 1000 if FULL else 2
DTYPES = "float32,bfloat16,float64,complex64,int64,bool" if FULL else "float32"
SHARDS = 2

# Operators that do not run with us, with the reason. Part of docs/supported.md.
KNOWN_DIFFERENT = {}


@pytest.mark.torch_floor
def test_every_operator_gives_the_same_bits(tmp_path):
    jobs = []
    for shard in range(SHARDS):
        out = tmp_path / f"{shard}.json"
        command = [sys.executable, str(JOB), "--shard", f"{shard}/{SHARDS}", "--samples",
                   str(SAMPLES), "--dtypes", DTYPES, "--out", str(out)]  # fmt: skip
        log = open(tmp_path / f"{shard}.log", "w", encoding="utf-8")
        jobs.append((subprocess.Popen(command, stdout=log, stderr=log), out, log))
    reports = []
    for job, out, log in jobs:
        status = job.wait()
        log.close()
        tail = Path(log.name).read_text(encoding="utf-8").splitlines()[-15:]
        assert status == 0, "\n".join([f"ended with {status} after:", *tail])
        reports.append(json.loads(out.read_text()))
    wrong = {name: what for report in reports for name, what in report["wrong"].items()}
    samples = sum(report["samples"] for report in reports)
    evictions = sum(report["evictions"] for report in reports)
    print(f"{samples} samples, {evictions} evictions")
    assert samples > 1000
    assert evictions > 10 * samples
    assert {name: what for name, what in wrong.items() if name not in KNOWN_DIFFERENT} == {}
