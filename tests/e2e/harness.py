"""Running jobs with and without Tidepool, and comparing what came out.

What trains many cases is in `lab.py`.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from environments import clean_environment

HERE = Path(__file__).resolve().parent
TRAIN_JOB = HERE / "train_job.py"
AMPLE = "16GiB"  # a cap on pages, which are taken only as needed: never reached here
JOB_SECONDS = 300
ON_CPU = {"CUDA_VISIBLE_DEVICES": ""}  # the default device is the CPU also where a GPU is


def run(command: list[str], seconds: int = JOB_SECONDS,
        **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end with a clean environment plus `environ`."""
    return subprocess.run(command, env=clean_environment(**{**ON_CPU, **environ}), text=True,
                          capture_output=True, timeout=seconds)


def attached(budget: str | int, *options: str, stats: Path | None = None) -> list[str]:
    """Return the front part of a command line that runs a job with Tidepool."""
    command = [sys.executable, "-m", "tidepool", "run", "--device", "cpu",
               "--budget", str(budget), *options]
    return [*command, *(["--stats", str(stats)] if stats else []), "--"]


def check_same_output(job: list[str], *others: list[str]) -> list[subprocess.CompletedProcess[str]]:
    """Run a job without Tidepool, and other commands, which have to print the same; return them."""
    plain = run(job)
    assert plain.returncode == 0, plain.stderr
    finished = [run(command) for command in others]
    for each in finished:
        assert each.stdout == plain.stdout, each.stderr
    return finished


def lines_of(program: str, budget: str | None = "64MiB") -> list[str]:
    """Run a program's text under a budget, or without Tidepool; return the lines that it prints."""
    front = attached(budget) if budget else []
    done = run([*front, sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def read_stats(path: Path) -> dict:
    """Return the statistics of the CPU from a finished job's file."""
    content = json.loads(path.read_text())
    assert content["state"] == "finished", f"the job did not finish: {content}"
    return content["devices"]["cpu"]


class JobFailed(AssertionError):
    """A job ended with an error of its own."""


def train(pairs: list[str], size: str, steps: int, threads: int, front: list[str],
          *options: str, **environ: str) -> dict:
    """Train cases in one process; return the script's results by case."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "digests.json"
        command = [*front, sys.executable, str(TRAIN_JOB), "--out", str(out), "--size", size,
                   "--steps", str(steps), "--threads", str(threads), *options, *pairs]
        done = run(command, **environ)
        if done.returncode != 0:
            raise JobFailed(f"{' '.join(command)}\nexit status {done.returncode}\n"
                            f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
        assert done.stdout == "", f"the job prints nothing, but stdout has: {done.stdout!r}"
        return json.loads(out.read_text())


def difference(plain: dict, other: dict) -> str:
    """Return which step and tensors differ first between two results, or nothing.

    Of a result that ends in an error, the steps before it are compared.
    """
    for number, (expected, got) in enumerate(zip(plain["steps"], other["steps"], strict=False)):
        names = [name for name in expected if expected[name] != got.get(name)]
        names += [name for name in got if name not in expected]
        if names:
            more = f" and {len(names) - 1} more of {len(expected)}" if len(names) > 1 else ""
            return f"step {number}: {names[0]} differs{more}"
    if len(plain["steps"]) != len(other["steps"]) and not other["error"]:
        return f"{len(other['steps'])} steps instead of {len(plain['steps'])}"
    return ""


def bytes_in(message: str, before: str) -> int:
    """Return the exact size in bytes that follows `before` in a message."""
    match = re.search(re.escape(before) + r"\D*(?:[0-9.]+ [KMGT]iB \()?([0-9]+) bytes", message)
    assert match, f"no size after {before!r} in:\n{message}"
    return int(match[1])


def lower_bound(message: str) -> int:
    """Return the lower bound for a budget that an out-of-memory error names."""
    return bytes_in(message, "No budget below")


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as aligned lines, the first one as the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows]
