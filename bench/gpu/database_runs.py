"""Runs tests/operators/database_job.py on a CUDA device, again where the process died."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import parts  # isort: skip  it says where the next one is
import measure

JOB = measure.ROOT / "tests" / "operators" / "database_job.py"
MOST_DEATHS = 20  # of a database: what it dies at twice is recorded and left out
# Groups for a rehearsal: what the stand-in device has no kernel for is refused at once.
SMOKE = {"operators": "abs,add,index_add", "grown": "sum", "wide": "index_add,sum,conv2d",
         "modules": "nn.Linear,nn.GELU"}
FORMATS = {"operators": "float32,bfloat16", "grown": "float32", "wide": "float32,bfloat16",
           "modules": "float32"}


class TimeIsUp(Exception):
    """The job is to go on in another call."""


# As tests/operators/comparison.py attaches. Here a backward pass has threads of its own, which only
# `tidepool run` sees when they start.
UNDER_CHAOS = ("-m", "tidepool", "run", "--device", "cuda", "--budget", "8GiB", "--chaos=alloc",
               "--", sys.executable)


def run(database: str, out: Path, seconds: float, smoke: bool, front: Sequence[str] = (),
        options: Sequence[str] = ()) -> dict[str, dict]:
    """Run a database to its end; return its groups' lines by name.

    Args:
        database: as database_job.py names it.
        out: where the job keeps what it has.
        seconds: how long.
        smoke: a few groups only.
        front: arguments of Python that come before the job.
        options: further ones of the job.

    Raises:
        TimeIsUp: there is more to do.
        SystemExit: the job fails however often it is begun.
    """
    formats = "float32" if smoke else FORMATS[database]
    command = [sys.executable, *front, str(JOB), "--device", "cuda", "--database", database,
               "--out", str(out), "--dtypes", formats, *options]
    if smoke:
        command += ["--only", SMOKE[database]]
    environ = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", **os.environ, "TIDEPOOL_QUIET": "1"}
    end, kept = time.monotonic() + seconds, -1
    for _ in range(MOST_DEATHS):
        left = end - time.monotonic()
        if left <= 0:
            raise TimeIsUp
        try:
            done = subprocess.run([*command, "--seconds", str(left)], env=environ, text=True,
                                  capture_output=True, timeout=left + 20)
        except subprocess.TimeoutExpired as expired:
            # A group that hangs is begun once more, and then counts as one that died.
            raise TimeIsUp from expired
        if done.returncode == parts.UNFINISHED:
            raise TimeIsUp
        if done.returncode == 0:
            return read(out)
        before, kept = kept, out.stat().st_size if out.exists() else 0
        if kept == before:
            break  # it fails before it begins a group
    sys.exit(f"{database}: dies again and again, at last: {done.stderr[-1500:]}")


def read(out: Path) -> dict[str, dict]:
    """Return the lines of the groups that are done."""
    whole = [text for text in out.read_text().splitlines() if text.endswith("}")]
    lines = map(json.loads, whole)
    return {line["group"]: line for line in lines if "group" in line}
