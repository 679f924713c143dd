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
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).with_name("train_job.py")
SHARE = 0.5
TURNS = 2
MIB = 1 << 20


def package() -> Path:
    """Return the folder to import `tidepool` from, with libraries for this PyTorch.

    They are those of the source tree, or of build/gpu-package where nothing was built.
    """
    python = ROOT / "bindings" / "python"
    carried = ROOT / "build" / "gpu-package" / "lib"
    if any((python / "tidepool" / "lib").glob("libtidepool_torch_cuda_*.so")):
        return python
    folder = ROOT / "build" / "gpu-check" / "package"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(python / "tidepool", folder / "tidepool",
                    ignore=shutil.ignore_patterns("lib", "__pycache__"))
    (folder / "tidepool" / "lib").symlink_to(carried, target_is_directory=True)
    return folder


def run(network: str, options: list[str], budget: int | None) -> dict:
    """Run the job; under a budget if there is one.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, str(JOB), network, *options]
    workspaces = ":16:8" if "--smoke" in options else ":4096:8"  # as determinism asks for
    environ = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": workspaces}
    if budget is not None:
        command = [sys.executable, "-m", "tidepool", "run", "--device", "cuda", "--budget",
                   str(budget), "--", *command]
        environ["PYTHONPATH"] = os.pathsep.join(
            [str(package()), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(command, env=environ, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def contents(found: dict) -> list[dict]:
    """Return what has to be equal."""
    return [{key: value for key, value in step.items() if key != "ms"} for step in found["steps"]]


def tell(fact: str, value: float) -> None:
    print(json.dumps({"fact": fact, "value": value}), flush=True)


def compare(network: str, mode: str, options: list[str], turns: int) -> bool:
    """Run the job in turns; return whether bits and budget are as they should be."""
    first = run(network, options, None)
    budget = int(first["fixed"] + SHARE * (first["allocated_peak"] - first["fixed"]))
    plain, ours = [first], []
    for _ in range(turns):
        ours.append(run(network, options, budget))
        plain.append(run(network, options, None))
    itself = all(contents(each) == contents(first) for each in plain)
    same = all(contents(each) == contents(first) for each in ours)
    kept = max(each["tidepool"]["reserved_peak_bytes"] for each in ours) <= budget
    tell(f"{mode}: the plain job equals itself", itself)
    tell(f"{mode}: the same bits under the budget", same)
    tell(f"{mode}: the budget was kept", kept)
    tell(f"{mode}: budget, MiB", budget / MIB)
    tell(f"{mode}: fixed, MiB", first["fixed"] / MIB)
    tell(f"{mode}: plain peak allocated, MiB", first["allocated_peak"] / MIB)
    tell(f"{mode}: plain peak reserved, MiB", first["reserved_peak"] / MIB)
    for key in ("evictions", "operators_replayed", "windows", "remaps", "search_ns",
                "bookkeeping_ns"):
        tell(f"{mode}: {key}", ours[-1]["tidepool"].get(key, 0))
    for name, runs in (("plain", plain), (f"r = {SHARE}", ours)):
        samples = [step["ms"] for each in runs for step in each["steps"][1:]]
        print(json.dumps({"name": f"{mode}: step, {name}", "unit": "ms", "samples": samples}),
              flush=True)
    return (same or not itself) and kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network")
    parser.add_argument("--smoke", action="store_true", help="small, one turn, default mode only")
    options = parser.parse_args()
    if options.smoke:
        return 0 if compare(options.network, "default", ["--smoke", "--steps", "2"], 1) else 1
    good = [compare(options.network, "deterministic", ["--deterministic"], TURNS),
            compare(options.network, "default", [], TURNS)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
