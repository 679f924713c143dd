"""What the first step of a new size costs in a running job, beside the second one.

Usage: python bench/first_steps.py [JOB...] [--sizes N] [--ratios R,R...] [--rounds N]

The jobs (bench/jobs/train_new_sizes.py) train each size twice in a row. A budget is what lasts and
a share of the rest of the peak. Runs without Tidepool and under each budget take turns; costs are
processor time of the thread that trains, summed over sizes, as multiples of the same steps' without
Tidepool; of each step the median over rounds counts. The first sizes, before which there is nothing
to foresee from, are left out.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import measure
import policy_bench
import run
from environments import clean_environment

JOB = Path(__file__).resolve().parent / "jobs" / "train_new_sizes.py"
JOBS = ("gpt", "packed", "detector")
LEFT_OUT = 4  # sizes
SECONDS = 1800
HEAD = ("job", "ratio", "budget MiB", "bits", "first", "second", "first / second", "10 % - 90 %",
        "worst", "foreseen", "kept", "bytes %")


@dataclass
class Ran:
    """What a job wrote, and its statistics with Tidepool."""

    said: dict
    memory: dict


def train(job: str, sizes: int, folder: Path, budget: int | None = None) -> Ran | str:
    """Train once; return the last line of errors where that fails."""
    out, stats = folder / "out.json", folder / "stats.json"
    environ = measure.with_package(clean_environment()) | {
        "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "TIDEPOOL_QUIET": "1",
        "TIDEPOOL_STATS": str(stats)}
    command = [sys.executable, str(JOB), job, str(sizes), str(out)]
    if budget is not None:
        command = [sys.executable, "-m", "tidepool", "run", "--device", "cpu", "--budget",
                   str(budget), "--", *command]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=SECONDS,
                          check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    memory = json.loads(stats.read_text())["devices"]["cpu"] if budget is not None else {}
    return Ran(json.loads(out.read_text()), memory)


def medians(runs: list[Ran]) -> list[float]:
    """Return the seconds of each step, in the median over runs."""
    return [statistics.median(each) for each in
            zip(*(ran.said["seconds"] for ran in runs), strict=True)]


def line(job: str, ratio: float, budget: int, plain: list[Ran], ours: list[Ran]) -> str:
    """Return a line of the table."""
    base, took = medians(plain), medians(ours)
    first, second = slice(2 * LEFT_OUT, None, 2), slice(2 * LEFT_OUT + 1, None, 2)
    cost_first = sum(took[first]) / sum(base[first])
    cost_second = sum(took[second]) / sum(base[second])
    each = [(a / b) / (c / d) for a, b, c, d in
            zip(took[first], base[first], took[second], base[second], strict=True)]
    low, high = measure.summarize("", "", each).spread
    same = all(ran.said["digest"] == plain[0].said["digest"] for ran in [*plain, *ours])
    memory = ours[-1].memory
    cells = [job, ratio, f"{budget / 2**20:.1f}", "same" if same else "**DIFFERENT**",
             f"{cost_first:.4f}", f"{cost_second:.4f}", f"{cost_first / cost_second:.4f}",
             f"{low:.3f} - {high:.3f}", f"{max(each):.3f}", memory["foreseen_steps"],
             memory["foreseen_kept"], f"{100 * memory['foreseen_bytes_error']:.2f}"]
    return f"| {' | '.join(map(str, cells))} |"


def lines(job: str, sizes: int, ratios: list[float], rounds: int) -> list[str]:
    """Measure a job; return its lines of the table."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        ample = train(job, sizes, folder, 64 << 30)
        if isinstance(ample, str):
            return [f"| {job} | {ample} |"]
        fixed, peak = ample.said["fixed_bytes"], ample.memory["allocated_peak_bytes"]
        budgets = {ratio: fixed + int(ratio * (peak - fixed)) for ratio in ratios}
        plain: list[Ran] = []
        ours: dict[float, list[Ran]] = {ratio: [] for ratio in ratios}
        failed = {}
        for _ in range(rounds):
            plain.append(train(job, sizes, folder))
            for ratio in ratios:
                ran = train(job, sizes, folder, budgets[ratio])
                if isinstance(ran, str):
                    failed[ratio] = ran
                else:
                    ours[ratio].append(ran)
        return [f"| {job} | {ratio} | {failed[ratio]} |" if ratio in failed
                else line(job, ratio, budgets[ratio], plain, ours[ratio]) for ratio in ratios]


def main() -> None:
    parser = measure.options(__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--sizes", type=int, default=24)
    parser.add_argument("--ratios", type=policy_bench.parse_ratios, default=[0.8, 0.6, 0.5])
    parser.add_argument("--rounds", type=int, default=3)
    parsed = parser.parse_args()
    print(f"{run.machine()['cpu']}, commit {run.commit()}, {parsed.rounds} rounds")
    print(f"\n| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    for job in parsed.jobs or JOBS:
        for made in lines(job, 6 if parsed.smoke else parsed.sizes, parsed.ratios,
                          1 if parsed.smoke else parsed.rounds):
            print(made, flush=True)


if __name__ == "__main__":
    main()
