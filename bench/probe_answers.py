"""Whether what `tidepool probe` says holds: budgets, times and batches beside real runs.

Usage: python bench/probe_answers.py [JOB...] [--smoke] [--markdown FILE]

For each job the probe recommends a budget and proves it. Then the job runs plain and under that
budget, in turns, five rounds: what it takes longer is compared with what was predicted, by the
processor time of its last steps (with plans as the probe has them: a step waits for its plan). The
least budget in simulation stands beside the one that bisection of real runs finds. Where a job's
batch can change, the largest one under half of the peak is looked for, and the next three larger
ones are run: none may fit. `lora_loaded` begins with the weights of a file. On the CPU, one thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import measure
from environments import clean_environment

JOB = measure.ROOT / "bench" / "jobs" / "probed_job.py"
JOBS = ("cnn", "gpt", "lstm", "detector", "gan", "lora", "lora_loaded", "diffusion", "ranks")
WITH_BATCHES = ("cnn", "gpt", "lora", "lora_loaded")
WEIGHTS = measure.ROOT / "build" / "probe_answers.pt"
ROUNDS, STEPS, TIMED = 5, 12, 4
SECONDS = 1800
MIB = 1 << 20


@dataclass
class Row:
    """What the probe said of one job, and what real runs say; bytes, and shares of time."""

    job: str
    peak: int
    budget: int
    proved: bool
    raised: int
    predicted: float
    measured: list[float]
    least: int
    real_least: int
    batch: str = "-"

    @property
    def error(self) -> float:
        """Return how far the prediction of time is off, as a share of the measured time."""
        return (1 + self.predicted) / (1 + statistics.median(self.measured)) - 1

    @property
    def least_error(self) -> float:
        return self.least / self.real_least - 1


def script(job: str, *options: object) -> list[str]:
    """Return the command that a user would run."""
    name = {"ranks": "gpt", "lora_loaded": "lora"}.get(job, job)
    loaded = ["--weights", str(WEIGHTS)] if job == "lora_loaded" else []
    arguments = [str(JOB), name, *loaded, *map(str, options)]
    if job == "ranks":
        return [sys.executable, "-m", "torch.distributed.run", "--standalone",
                "--nproc-per-node", "2", *arguments]
    return [sys.executable, *arguments]


def under(budget: int, command: list[str]) -> list[str]:
    return [sys.executable, "-m", "tidepool", "run", "--device", "cpu", "--budget", str(budget),
            "--", *command]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environ = clean_environment(TIDEPOOL_QUIET="1", CUDA_VISIBLE_DEVICES="",
                                TIDEPOOL_PLANNING="wait", GLOO_SOCKET_IFNAME="lo",
                                OMP_NUM_THREADS="1")
    return subprocess.run(command, env=environ, text=True, capture_output=True, timeout=SECONDS)


def step_ms(command: list[str], times: Path) -> float:
    """Return the median time of the last steps of a job that has to end well."""
    done = run(command)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return statistics.median(json.loads(times.read_text())[-TIMED:])


def runs(job: str, budget: int, *options: object) -> bool:
    """Tell whether a job's first steps run under a budget."""
    done = run(under(budget, script(job, "--steps", 4, *options)))
    if done.returncode != 0 and "out of memory" not in done.stderr:
        raise RuntimeError(f"{job} under {budget}: {done.stderr[-2000:]}")
    return done.returncode == 0


def real_least(job: str, near: int) -> int:
    """Return the least budget that runs; `near`: one that may be near to it."""
    low = int(0.85 * near)
    while runs(job, low):
        low -= low // 10
    return measure.least(lambda budget: runs(job, budget), low, int(1.03 * near))


def probe(job: str, *options: object, of: tuple = ()) -> dict:
    """Return the probe's answer."""
    done = run([sys.executable, "-m", "tidepool", "probe", "--json", *map(str, options), "--",
                *script(job, *of)])
    try:
        return json.loads(done.stdout[done.stdout.index("{"):])
    except ValueError:
        raise RuntimeError(f"the probe of {job}: {done.stderr[-3000:]}") from None


def largest_batch(job: str, memory: int) -> str:
    """Return the largest batch that the probe finds, and whether none of the next three fits."""
    found = probe(job, "--memory", memory, "--batch", "{batch}", "4:128",
                  of=("--steps", 4, "--batch", "{batch}"))
    largest = found.get("largest")
    if not largest:
        return f"none: {found.get('problem', '')}"
    larger = [size for size in range(largest + 1, largest + 4)
              if runs(job, memory, "--batch", size)]
    return f"{largest}, exact" if not larger else f"{largest}, but {larger} fit"


def row_of(job: str, rounds: int) -> Row:
    found = probe(job, "--slowdown", "10%")
    proof, recommended, least = found["proof"], found["recommended"], found["least"]
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times.json"
        plain = script(job, "--steps", STEPS, "--times", times)
        ours = under(proof["budget_bytes"], plain)
        for number in range(rounds):
            took = {}
            for which in ((0, 1), (1, 0))[number % 2]:
                took[which] = step_ms((plain, ours)[which], times)
            measured.append(took[1] / took[0] - 1)
    at_least = least["budget_bytes"]
    row = Row(job, found["peak_bytes"], proof["budget_bytes"], proof["proved"], proof["raised"],
              recommended["overhead"] - 1, measured, at_least,
              real_least(job, at_least))
    if job in WITH_BATCHES:
        row.batch = largest_batch(job, row.peak // 2)
    return row


def markdown(rows: list[Row]) -> str:
    lines = ["| job | peak MiB | recommended | proved | raised | predicted | measured | 10 % - 90 %"
             " | error of time | least | real | error | largest batch at half |",
             "| --- " * 13 + "|"]
    for row in rows:
        ordered = sorted(row.measured)
        lines.append(
            f"| {row.job} | {row.peak / MIB:.1f} | {row.budget / MIB:.1f} | "
            f"{'yes' if row.proved else 'no'} | {row.raised} | {row.predicted:+.1%} | "
            f"{statistics.median(ordered):+.1%} | {ordered[0]:+.1%} - {ordered[-1]:+.1%} | "
            f"{row.error:+.1%} | {row.least / MIB:.1f} | {row.real_least / MIB:.1f} | "
            f"{row.least_error:+.1%} | {row.batch} |")
    errors = sorted((abs(row.error), row.job) for row in rows)
    least = sorted((abs(row.least_error), row.job) for row in rows)
    lines += ["", f"Error of time: median {statistics.median(e for e, _ in errors):.1%}, worst "
              f"{errors[-1][0]:.1%} ({errors[-1][1]}). Error of the least budget: median "
              f"{statistics.median(e for e, _ in least):.1%}, worst {least[-1][0]:.1%} "
              f"({least[-1][1]})."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--smoke", action="store_true", help="one job, one round")
    parser.add_argument("--markdown", type=Path, help="where the table goes")
    options = parser.parse_args()
    if unknown := set(options.jobs) - set(JOBS):
        parser.error(f"unknown jobs {sorted(unknown)}: expected some of {', '.join(JOBS)}")
    rows = []
    for job in options.jobs or (("gan",) if options.smoke else JOBS):
        rows.append(row_of(job, 1 if options.smoke else ROUNDS))
        print(markdown(rows), flush=True)
    if options.markdown:
        options.markdown.write_text(markdown(rows) + "\n")


if __name__ == "__main__":
    main()
