"""What a budget costs a job that offloads to a file: time by budget, on the disk of a folder.

Usage: python bench/offload_budgets.py FOLDER [--shares S,S...] [--rounds N] [--steps N]
       [--batch N] [--smoke] [--markdown FILE]

The job of `./dev demo --offload`: ResNet-50 with AdamW. Parameters, gradients and the optimizer's
state take more than its activations, so that no budget below them can be kept by recomputing. It
runs plainly, with ample memory, and under budgets that are shares of its fixed bytes (parameters,
gradients, optimizer state, buffers and a batch), with a file in the folder for the rest: each a
process of its own, all in turns, round by round. The table has the time of a step, by the clock
and of the processors, its first step left out, as the optimizer's state is made there. Where a bit
differs or the budget is exceeded, the status is 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import demo
import measure
import run
from environments import clean_environment

SHARES = (1.25, 1.0, 0.75, 0.5, 0.4, 0.3, 0.25)  # of the fixed bytes
ROUNDS, STEPS, BATCH = 3, 3, 4
ROOM, AMPLE = "64GiB", 1 << 40
MIB, GB = 1 << 20, 1e9


@dataclass
class Way:
    """The runs of the job under one budget; None is plain PyTorch."""

    name: str
    budget: int | None
    seconds: list[float] = field(default_factory=list)  # of steps, by the clock
    processor_seconds: list[float] = field(default_factory=list)
    statistics: list[dict] = field(default_factory=list)
    results: list[dict] = field(default_factory=list)
    error: str = ""

    def per_step(self, key: str, steps: int) -> float:
        """Return a statistic as a mean of all steps, the first included."""
        return statistics.mean(each[key] for each in self.statistics) / steps


def run_job(way: Way, options: argparse.Namespace, number: int) -> None:
    """Run the job once, and add to its way what it took."""
    out = options.scratch / f"{number}.json"
    stats = options.scratch / f"{number}.stats.json"
    command = [sys.executable, str(demo.JOB), "--out", str(out), "--batch", str(options.batch),
               "--steps", str(options.steps), "--threads", str(options.threads),
               "--optimizer", "adamw"]
    if way.budget is not None:
        command = [sys.executable, "-m", "tidepool", "run", "--device", "cpu", "--budget",
                   str(way.budget), "--offload", f"file:{options.folder}:{ROOM}",
                   "--stats", str(stats), "--", *command]
    environ = measure.with_package(clean_environment(TIDEPOOL_QUIET="1", CUDA_VISIBLE_DEVICES=""))
    done = subprocess.run(command, env=environ, text=True, capture_output=True)
    if done.returncode != 0:
        advised = measure.budget_to_try(done.stderr)
        way.error = (f"out of memory; {advised / MIB:.0f} MiB would do" if advised
                     else done.stderr.strip().splitlines()[-1])
        return
    result = json.loads(out.read_text())
    way.results.append(result)
    way.seconds += result["seconds"][1:]
    way.processor_seconds += result["processor_seconds"][1:]
    if way.budget is not None:
        way.statistics.append(json.loads(stats.read_text())["devices"]["cpu"])


def problems_of(way: Way, plain: dict) -> list[str]:
    """Return what must not be, of the runs of one way."""
    found = [f"{what} differ" for result in way.results for what in demo.COMPARED
             if result[what] != plain[what]]
    found += [f"{each['reserved_peak_bytes']} bytes of {way.budget} were held"
              for each in way.statistics if each["reserved_peak_bytes"] > way.budget]
    return [f"{way.name}: {text}" for text in found]


def spread(samples: Sequence[float]) -> str:
    """Return median, least and most of some seconds."""
    return f"{statistics.median(samples):.2f} ({min(samples):.2f} - {max(samples):.2f})"


def row(way: Way, plain: Way, steps: int) -> str:
    """Return a way's line of the table."""
    budget = "-" if way.budget in (None, AMPLE) else f"{way.budget / MIB:.0f}"
    front = f"| {way.name} | {budget} |"
    if way.error:
        return f"{front} {way.error} |"
    slower = statistics.median(way.seconds) / statistics.median(plain.seconds)
    processor = (statistics.median(way.processor_seconds)
                 / statistics.median(plain.processor_seconds))
    cells = [spread(way.seconds), f"{slower:.2f}", spread(way.processor_seconds),
             f"{processor:.2f}"]
    if way.statistics:
        cells += [f"{way.per_step('copied_bytes', steps) / MIB:.0f}",
                  f"{way.per_step('fetched_bytes', steps) / MIB:.0f}",
                  f"{way.per_step('exposed_ns', steps) / 1e9:.2f}",
                  f"{way.per_step('operators_replayed', steps):.0f}"]
    return f"{front} {' | '.join(cells)} |"


def document(ways: Sequence[Way], options: argparse.Namespace, speed: str) -> str:
    """Return the table, and above it what it is of."""
    plain, ample = ways[:2]
    fixed = plain.results[0]["fixed_bytes"]
    peak = max(each["allocated_peak_bytes"] for each in ample.statistics)
    machine = run.machine()
    return "\n".join([
        "# Time by budget, with a file for the rest", "",
        f"`{options.command}`; {machine['cpu']}, {machine['cores']} cores, commit {run.commit()}; "
        f"{speed}.", "",
        f"ResNet-50, batch {options.batch}, AdamW, float32: {peak / MIB:.0f} MiB at the peak, of "
        f"which parameters, gradients, optimizer state, buffers and the batch are "
        f"{fixed / MIB:.0f} MiB, the fixed bytes. Steps 2 to {options.steps} of {options.rounds} "
        f"rounds in turns: median, least and most, in seconds. What is written, read and waited "
        f"for is the mean of all steps.", "",
        "| budget / fixed | MiB | a step, s | / plain | processors, s | / plain | "
        "written, MiB | read, MiB | waited, s | replays |", "| --- " + "| ---: " * 9 + "|",
        *(row(way, plain, options.steps) for way in ways), "",
        "The bits are the same in all runs, and no run held more than its budget." if
        not any(problems_of(way, plain.results[0]) for way in ways) else "**Something differs.**",
        ""])


def disk_speed(folder: Path) -> str:
    """Return how fast the folder's disk is, as `tidepool doctor` measures it."""
    from tidepool.doctor import _transfers

    speed = _transfers.file_speed(str(folder))
    return f"the disk writes {speed.out / GB:.2f} GB/s and reads {speed.back / GB:.2f} GB/s"


def run_in_turns(options: argparse.Namespace) -> list[Way]:
    """Run all ways, round by round; a plain run before says what is fixed, and is not counted."""
    first = Way("plain", None)
    run_job(first, options, 0)
    if first.error:
        sys.exit(f"{first.name}: {first.error}")
    fixed = first.results[0]["fixed_bytes"]
    ways = [Way("plain", None), Way("ample", AMPLE),
            *(Way(f"{share:g}", int(share * fixed)) for share in options.shares)]
    for number in range(options.rounds):
        for way in ways:
            if way.error:
                continue
            run_job(way, options, number)
            said = way.error or f"{way.results[-1]['seconds'][-1]:.2f} s"
            print(f"round {number + 1}, {way.name}: {said}", flush=True)
    for way in ways[:2]:
        if way.error:
            sys.exit(f"{way.name}: {way.error}")
    return ways


def parse_shares(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="on a local disk")
    parser.add_argument("--shares", type=parse_shares, default=list(SHARES), metavar="S,S...")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="one budget, once")
    parser.add_argument("--markdown", type=Path, help="where the table goes")
    options = parser.parse_args(arguments)
    given = sys.argv[1:] if arguments is None else arguments
    options.command = " ".join(["python bench/offload_budgets.py", *given])
    if options.smoke:
        options.shares, options.rounds, options.steps, options.batch = [0.6], 1, 2, 1
    speed = disk_speed(options.folder)
    with tempfile.TemporaryDirectory() as scratch:
        options.scratch = Path(scratch)
        ways = run_in_turns(options)
    text = document(ways, options, speed)
    print(text)
    if options.markdown:
        options.markdown.write_text(text)
    problems = [text for way in ways for text in problems_of(way, ways[0].results[0])]
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
