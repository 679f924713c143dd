"""Compares a training job on CUDA under half of the memory for its activations with the plain one.

    python bits.py NETWORK [--smoke]

Runs the job plain, plain again, and with Tidepool at r = 0.5, in turns, with PyTorch's
deterministic algorithms and without. Standard output has JSON lines for bench/gpu_check.py: facts
(1 for yes) and the times of steps. Exit status 1 if bits differ where the plain job equals itself,
or the budget was passed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import parts  # isort: skip  it says where the next one is
import measure

JOB = Path(__file__).with_name("train_job.py")
SHARE = 0.5
TURNS = 1  # bits need no more, and one wants to know soon: stage f has times
MIB = 1 << 20


class OutOfMemory(Exception):
    """The job found no memory under its budget."""


def run(network: str, options: list[str], budget: int | str | None = None,
        chaos: str | None = None, offload: str | None = None) -> dict:
    """Run the job; under a budget, with everything evicted or with a second tier, as is said.

    Raises:
        OutOfMemory: the budget does not do.
        SystemExit: it failed otherwise.
    """
    command = [sys.executable, str(JOB), network, *options]
    small = {"budget", "chaos"} & set(options)
    workspaces = ":16:8" if small else ":4096:8"  # as determinism asks for
    environ = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": workspaces}
    if budget is not None:
        settings = ["--budget", str(budget), *([f"--chaos={chaos}"] if chaos else []),
                    *(["--offload", offload] if offload else [])]
        command = [sys.executable, "-m", "tidepool", "run", "--device", "cuda", *settings, "--",
                   *command]
        environ = measure.with_package(environ)
    done = subprocess.run(command, env=environ, text=True, capture_output=True)
    if done.returncode != 0:
        if budget is not None and "OutOfMemoryError" in done.stderr:
            raise OutOfMemory(done.stderr[-3000:])
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if budget is not None and not found["tidepool"]:
        sys.exit(f"Tidepool was not attached: {done.stderr[-1000:]}")
    return found


def contents(steps: list[dict]) -> list[dict]:
    """Return what has to be equal."""
    return [{key: value for key, value in step.items() if key != "ms"} for step in steps]


def budget_of(found: dict, share: float = SHARE) -> int:
    """Return the budget that leaves this share of what is not fixed."""
    return int(found["fixed"] + share * (found["allocated_peak"] - found["fixed"]))


def compare(network: str, mode: str, options: list[str], turns: int) -> bool:
    """Run the job in turns; return whether bits and budget are as they should be."""
    first = run(network, options)
    budget, expected = budget_of(first), contents(first["steps"])
    plain, ours = [first], []
    for _ in range(turns):
        ours.append(run(network, options, budget))
        plain.append(run(network, options))
    itself = all(contents(each["steps"]) == expected for each in plain)
    same = all(contents(each["steps"]) == expected for each in ours)
    kept = max(each["tidepool"]["reserved_peak_bytes"] for each in ours) <= budget
    parts.tell(f"{mode}: the plain job equals itself", itself)
    parts.tell(f"{mode}: the same bits under the budget", same)
    parts.tell(f"{mode}: the budget was kept", kept)
    parts.tell(f"{mode}: budget, MiB", budget / MIB)
    parts.tell(f"{mode}: fixed, MiB", first["fixed"] / MIB)
    parts.tell(f"{mode}: plain peak allocated, MiB", first["allocated_peak"] / MIB)
    parts.tell(f"{mode}: plain peak reserved, MiB", first["reserved_peak"] / MIB)
    for key in ("evictions", "operators_replayed", "windows", "remaps", "search_ns",
                "bookkeeping_ns"):
        parts.tell(f"{mode}: {key}", ours[-1]["tidepool"].get(key, 0))
    for name, runs in (("plain", plain), (f"r = {SHARE}", ours)):
        samples = [step["ms"] for each in runs for step in each["steps"][1:]]
        parts.samples(f"{mode}: step, {name}", "ms", samples)
    return (same or not itself) and kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network")
    parser.add_argument("--smoke", action="store_true", help="small, one turn, default mode only")
    options = parser.parse_args()
    if options.smoke:
        small = ["--size", "budget", "--steps", "2"]
        return 0 if compare(options.network, "default", small, 1) else 1
    good = [compare(options.network, "deterministic", ["--deterministic"], TURNS),
            compare(options.network, "default", [], TURNS)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
