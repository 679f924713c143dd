"""Simulate jobs whose steps change their size at random: padded texts, images, and packed texts.

Usage: bench/new_sizes.py [NAME...] [--sizes N] [--folder FOLDER]

Each job is recorded with shapes alone (jobs/sized_job.py), every size twice in a row, and then
simulated under budgets from 0.9 to 0.4 of the largest step's peak. Prints one table for each kind
of sizes, and one of how well they can be foreseen; tidepool_size_sequence has to be built
(`./dev build`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import measure
from corpus import environment

JOB = measure.ROOT / "bench" / "jobs" / "sized_job.py"
# The steps in which Mimose measures: what its authors take for texts, and for images.
MEASURED = {"glue": 10, "coco": 30, "pack": 10}


def record(name: str, folder: Path, sizes: int) -> Path:
    """Return the trace of a job, recorded now unless the folder has it."""
    path = folder / f"{name}.jsonl.gz"
    if not path.exists():
        subprocess.run([sys.executable, str(JOB), name, str(path), "--sizes", str(sizes)],
                       env=environment(), check=True)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="jobs (default: all)")
    parser.add_argument("--sizes", type=int, default=60)
    parser.add_argument("--folder", type=Path, help="where traces are kept (default: nowhere)")
    parsed = parser.parse_args()
    names = parsed.names or subprocess.run([sys.executable, str(JOB), "--list"], text=True,
                                           check=True, capture_output=True).stdout.split()
    with tempfile.TemporaryDirectory() as temporary:
        folder = parsed.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        program = str(measure.built("tidepool_size_sequence"))
        paths = {name: str(record(name, folder, parsed.sizes)) for name in names}
        for kind, measured in MEASURED.items():
            ours = [path for name, path in paths.items() if name.startswith(kind)]
            if ours:
                subprocess.run([program, *ours, "--measured",
                                str(min(measured, parsed.sizes - 1))], check=True)
        subprocess.run([program, *paths.values(), "--foresight"], check=True)


if __name__ == "__main__":
    main()
