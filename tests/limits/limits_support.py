"""What the tests of limits share: running attached jobs, and compiling small test libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import test_libraries
from selection import FULL

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# A shared machine may be slow: a job that takes this long hangs.
TIMEOUT_SECONDS = 1800 if FULL else 300


def compile_library(source: str, *flags: str) -> Path:
    """Return the shared library of a C or C++ file of this folder, compiled if it has changed."""
    return test_libraries.compile_library(HERE / source, *flags)


def compile_with_torch(source: str) -> Path:
    """Return the library of a C++ file that uses PyTorch's C++ core (c10)."""
    import torch

    folder = Path(torch.__file__).parent
    return compile_library(source, "-isystem", str(folder / "include"), f"-L{folder / 'lib'}",
                           "-lc10", f"-Wl,-rpath,{folder / 'lib'}")


def run(command: list[str], **environ: str) -> subprocess.CompletedProcess:
    """Run a command to its end, with these variables added, and return it with its text output."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", **environ}
    return subprocess.run(command, env=environ, text=True, capture_output=True,
                          timeout=TIMEOUT_SECONDS)


def run_job(script: str, *arguments: str, **environ: str) -> dict:
    """Run a script of this folder in a process without Tidepool; return the JSON it prints last."""
    return _result(run([sys.executable, str(HERE / script), *arguments], **environ))


def run_attached(budget: str, script: str, *arguments: str, stats: Path | None = None,
                 **environ: str) -> dict:
    """Run a script of this folder under `tidepool run`; return the JSON it prints last."""
    return _result(start_attached(budget, script, *arguments, stats=stats, **environ))


def start_attached(budget: str, script: str, *arguments: str, stats: Path | None = None,
                   **environ: str) -> subprocess.CompletedProcess:
    """Run a script of this folder under `tidepool run` to its end, whatever that is."""
    command = [sys.executable, "-m", "tidepool", "run", "--budget", budget]
    if stats is not None:
        command += ["--stats", str(stats)]
    return run([*command, "--", sys.executable, str(HERE / script), *arguments], **environ)


def _result(done: subprocess.CompletedProcess) -> dict:
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])
