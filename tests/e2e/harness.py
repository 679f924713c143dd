"""Running jobs with and without Tidepool, and comparing what came out.

Budgets follow the definition of r: budget = fixed + r * (peak - fixed), where peak is the
`allocated_peak_bytes` of the attached job without pressure, and fixed is parameters, gradients,
optimizer state and inputs, which the job measures itself.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRAIN_JOB = HERE / "train_job.py"
AMPLE = "16GiB"  # a cap on pages, which are taken only as needed: never reached here
JOB_SECONDS = 300


def clean_environment(**extra: str) -> dict[str, str]:
    """Return this process's environment without settings of Tidepool or of PyTorch's allocator."""
    dropped = ("TIDEPOOL_", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "LD_PRELOAD")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    # The default device is the CPU also where a GPU is.
    return {**kept, "CUDA_VISIBLE_DEVICES": "", **extra}


def run(command: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end with a clean environment plus `environ`."""
    return subprocess.run(command, env=clean_environment(**environ), text=True,
                          capture_output=True, timeout=JOB_SECONDS)


def attached(budget: str | int, *options: str, stats: Path | None = None) -> list[str]:
    """Return the front part of a command line that runs a job with Tidepool."""
    command = [sys.executable, "-m", "tidepool", "run", "--device", "cpu",
               "--budget", str(budget), *options]
    return [*command, *(["--stats", str(stats)] if stats else []), "--"]


def read_stats(path: Path) -> dict:
    """Return the statistics of the CPU from a finished job's file."""
    content = json.loads(path.read_text())
    assert content["state"] == "finished", f"the job did not finish: {content}"
    return content["devices"]["cpu"]


@dataclass(frozen=True)
class Case:
    """A network trained in one mode, under one way of pressure.

    `pressure` is "chaos" or an r such as "0.6".
    """

    network: str
    mode: str
    pressure: str
    threads: int = 1

    @property
    def pair(self) -> str:
        return f"{self.network}:{self.mode}"

    @property
    def size(self) -> str:
        return "chaos" if self.pressure == "chaos" else "budget"

    @property
    def steps(self) -> int:
        return 3

    def __str__(self) -> str:
        threads = "" if self.threads == 1 else f"-{self.threads}threads"
        return f"{self.network}-{self.mode}-{self.pressure}{threads}"


@dataclass
class Outcome:
    """What a case gave beside its plain run."""

    case: Case
    plain: dict
    result: dict
    evictions: int
    replays: int
    budget: int | None = None
    stats: dict = field(default_factory=dict)

    @property
    def time_ratio(self) -> float | None:
        if len(self.result["seconds"]) < 2:
            return None
        return (statistics.median(self.result["seconds"][1:])
                / statistics.median(self.plain["seconds"][1:]))

    def row(self) -> tuple[str, ...]:
        """Return the case as a line of a table."""
        ratio = f"{self.time_ratio:.2f}" if self.time_ratio else "-"
        steps = "infeasible" if self.result["error"] else str(len(self.result["steps"]))
        budget = f"{self.budget / 2**20:.1f}" if self.budget else "ample"
        return (self.case.network, self.case.mode, self.case.pressure, budget, steps, ratio,
                str(self.evictions), str(self.replays))


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


class Lab:
    """Runs cases, several at a time, and keeps what plain runs gave."""

    def __init__(self, workers: int) -> None:
        self.pool = ThreadPoolExecutor(workers)
        self.plain: dict[tuple, Future] = {}  # (pair, size, steps, threads) -> result
        self.peaks: dict[tuple, Future] = {}  # the same -> allocated_peak_bytes
        self.outcomes: dict[Case, Future] = {}

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)

    def schedule(self, cases: list[Case]) -> None:
        """Start cases: plain runs first, a network's modes in one process; then the others.

        A task only ever waits for tasks that were put into the pool before it.
        """
        new = [case for case in cases if case not in self.outcomes]
        self._schedule_plain(new)
        self._schedule_peaks([case for case in new if case.pressure != "chaos"])
        chaos: dict[tuple, list[Case]] = {}
        for case in new:
            if case.pressure == "chaos":
                chaos.setdefault((case.network, case.threads), []).append(case)
            else:
                self.outcomes[case] = self.pool.submit(self._under_budget, case)
        for together in chaos.values():
            done = self.pool.submit(self._under_chaos, together)
            self.outcomes.update(dict.fromkeys(together, done))

    def _schedule_plain(self, cases: list[Case]) -> None:
        groups: dict[tuple, list[str]] = {}
        for case in cases:
            if self._key(case) not in self.plain:
                pairs = groups.setdefault((case.network, *self._key(case)[1:]), [])
                pairs += [case.pair] if case.pair not in pairs else []
        for (_, *rest), pairs in groups.items():
            together = self.pool.submit(train, pairs, *rest, [])
            for pair in pairs:
                self.plain[pair, *rest] = together

    def _schedule_peaks(self, cases: list[Case]) -> None:
        for case in cases:
            if self._key(case) not in self.peaks:
                self.peaks[self._key(case)] = self.pool.submit(self._peak, case)

    def outcome(self, case: Case) -> Outcome:
        """Return a case's outcome, waiting for it if it is under way."""
        self.schedule([case])
        done = self.outcomes[case].result()
        return done[case] if isinstance(done, dict) else done

    def activation_bytes(self, case: Case) -> int:
        """Return peak - fixed of a case."""
        self._schedule_plain([case])
        self._schedule_peaks([case])
        return self.peaks[self._key(case)].result() - self._plain(case)["fixed_bytes"]

    def compare(self, case: Case, result: dict) -> str:
        """Return how a result differs from the plain run's, or nothing.

        The promise is for jobs that equal themselves: if bits differ, the plain job runs again.
        """
        plain = self._plain(case)
        problem = difference(plain, result)
        if problem:
            again = train([case.pair], case.size, case.steps, case.threads, [])[case.pair]
            itself = difference(plain, again)
            problem += f" (the plain job differs from itself: {itself})" if itself else ""
        return problem

    @staticmethod
    def _key(case: Case) -> tuple:
        return case.pair, case.size, case.steps, case.threads

    def _plain(self, case: Case) -> dict:
        return self.plain[self._key(case)].result()[case.pair]

    def _peak(self, case: Case) -> int:
        result, stats = self._attached(case, AMPLE)
        problem = self.compare(case, result)
        assert not problem, f"{case.pair} attached without pressure: {problem}"
        assert stats["evictions"] == 0
        return stats["allocated_peak_bytes"]

    def _under_budget(self, case: Case) -> Outcome:
        plain, fixed = self._plain(case), self._plain(case)["fixed_bytes"]
        peak = self.peaks[self._key(case)].result()
        budget = fixed + int(float(case.pressure) * (peak - fixed))
        result, stats = self._attached(case, budget)
        return Outcome(case, plain, result, stats["evictions"], stats["operators_replayed"],
                       budget, stats)

    def _attached(self, case: Case, budget: str | int) -> tuple[dict, dict]:
        with tempfile.TemporaryDirectory() as folder:
            stats = Path(folder) / "stats.json"
            results = train([case.pair], case.size, case.steps, case.threads,
                            attached(budget, stats=stats))
            return results[case.pair], read_stats(stats)

    def _under_chaos(self, cases: list[Case]) -> dict[Case, Outcome]:
        first = cases[0]
        results = train([case.pair for case in cases], first.size, first.steps, first.threads,
                        attached(AMPLE, "--chaos=op"))
        outcomes = {}
        for case in cases:
            result = results[case.pair]
            counters = result["counters"]
            outcomes[case] = Outcome(case, self._plain(case), result, counters["evictions"],
                                     counters["operators_replayed"])
        return outcomes


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


def table(rows: list[tuple[str, ...]]) -> str:
    """Return rows as aligned text, the first one as the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                     for row in rows)
