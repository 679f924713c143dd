"""Make the trace corpus again: bench/traces/cpu and bench/traces/gpu, one file for each network.

Usage: bench/corpus.py [NAME...] [--scale cpu|gpu] [--rounds N] [--folder FOLDER]

At CPU scale an ordinary job is recorded by `tidepool run --trace`, after steps that warm up: some
rounds of the same steps. The first of them becomes the trace, with the least cost that each
operator had in any round, so that other work on the machine shows less. At GPU scale shapes are
recorded, with costs by a model (shape_recorder.py), the same on every machine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import measure  # which says where the next module lies
from environments import clean_environment

HERE = measure.ROOT / "bench"
JOB = HERE / "jobs" / "corpus_job.py"
SCALES = ("cpu", "gpu")


def networks() -> list[str]:
    """Return the names of all networks, those for tuning first."""
    split = json.loads((HERE / "traces" / "split.json").read_text())
    return [*split["tuning"], *split["validation"]]


def environment() -> dict[str, str]:
    """Return an environment for jobs: one thread, no settings of Tidepool, no GPU."""
    return clean_environment(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")


def record_gpu(name: str, path: Path) -> None:
    """Record shapes at GPU scale."""
    subprocess.run([sys.executable, str(JOB), name, "--gpu", str(path)], env=environment(),
                   check=True)


def record_cpu(name: str, path: Path, rounds: int) -> None:
    """Record a job at CPU scale."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / f"cpu_{name}.jsonl"
        marks = json.loads(subprocess.run([sys.executable, str(JOB), name, "--marks"], text=True,
                                          env=environment(), check=True,
                                          capture_output=True).stdout)
        subprocess.run([sys.executable, "-m", "tidepool", "run", "--device", "cpu",
                        "--trace", str(whole), "--trace-steps", f"{marks + 1}:", "--",
                        sys.executable, str(JOB), name, "--rounds", str(rounds)],
                       env=environment() | {"TIDEPOOL_QUIET": "1"}, check=True)
        lines = [json.loads(line) for line in whole.read_text().splitlines()]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n"
                   for line in least_costs(lines, marks))
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def least_costs(lines: list[dict], marks: int) -> list[dict]:
    """Return the trace of the first round, each operator with its least cost in any round.

    Args:
        lines: of a whole trace.
        marks: how many marks of steps a round has.

    Raises:
        ValueError: a round does something else than the first.
    """
    rounds = list(_rounds(lines[1:-1], marks))
    calls = [[line for line in part if "op" in line] for part in rounds]
    names = [[line["op"] for line in part] for part in calls]
    if any(other != names[0] for other in names):
        raise ValueError("the rounds differ")
    for versions in zip(*calls, strict=True):
        versions[0]["ns"] = min(version["ns"] for version in versions)
    return [lines[0], *rounds[0], {"end": len(rounds[0])}]


def _rounds(events: list[dict], marks: int) -> Iterator[list[dict]]:
    part: list[dict] = []
    steps = 0
    for event in events:
        part.append(event)
        steps += "step" in event
        if "step" in event and steps % marks == 0:
            yield part
            part = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="networks (default: all)")
    parser.add_argument("--scale", choices=SCALES, action="append")
    parser.add_argument("--rounds", type=int, default=5, help="at CPU scale (default: 5)")
    parser.add_argument("--folder", type=Path, default=HERE / "traces")
    parsed = parser.parse_args()
    for name in parsed.names or networks():
        for scale in parsed.scale or SCALES:
            path = parsed.folder / scale / f"{name}.jsonl.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            if scale == "gpu":
                record_gpu(name, path)
            else:
                record_cpu(name, path, parsed.rounds)
            print(f"{path}: {path.stat().st_size >> 10} KiB", flush=True)


if __name__ == "__main__":
    main()
