"""Trains networks with and without Tidepool, many at a time, and compares what came out.

Budgets follow the definition of r: budget = fixed + r * (peak - fixed), where peak is the
`allocated_peak_bytes` of the attached job without pressure, and fixed is parameters, gradients,
optimizer state and inputs, which the job measures itself.
"""

import json
import queue
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from environments import clean_environment
from harness import AMPLE, HERE, ON_CPU, JobFailed, difference


@dataclass(frozen=True)
class Case:
    """A network trained in one mode, under one way of pressure.

    `pressure` is "chaos", "offload:SEED" (chaos that copies, by chance, into a file), or an r such
    as "0.6"; `room` are the ways to make room, "" for all.
    """

    network: str
    mode: str
    pressure: str
    threads: int = 1
    room: str = ""

    @property
    def pair(self) -> str:
        return f"{self.network}:{self.mode}"

    @property
    def is_chaos(self) -> bool:
        return self.pressure.startswith(("chaos", "offload"))

    @property
    def size(self) -> str:
        return "chaos" if self.is_chaos else "budget"

    @property
    def key(self) -> tuple:
        """What plain runs are told apart by."""
        return self.pair, self.size, self.threads

    def __str__(self) -> str:
        threads = "" if self.threads == 1 else f"-{self.threads}threads"
        room = f"-{self.room}" if self.room else ""
        return f"{self.network}-{self.mode}-{self.pressure}{threads}{room}"


@dataclass
class Outcome:
    """What a case gave beside its plain run."""

    case: Case
    plain: dict
    result: dict
    budget: int | None = None
    stats: dict = field(default_factory=dict)

    @property
    def evictions(self) -> int:
        return self.result["counters"]["evictions"]

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
        replayed = self.result["counters"]["operators_replayed"]
        return (self.case.network, self.case.mode, self.case.pressure, budget, steps, ratio,
                str(self.evictions), str(replayed))


class Runner:
    """A case_runner process, which has imported PyTorch. For one thread at a time.

    Args:
        script: another one that serves requests as it does.
        environ: variables to add.
    """

    def __init__(self, script: Path = HERE / "case_runner.py", **environ: str) -> None:
        self.log = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115  until the end
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True, env=clean_environment(**ON_CPU, **environ))

    def ask(self, request: dict) -> dict:
        """Return the answer to a request; raise JobFailed if there is none."""
        start = self.log.seek(0, 2)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"ended_with": self.process.wait()}
        if "ended_with" in answer:
            self.log.seek(start)
            raise JobFailed(f"{request} ended with {answer['ended_with']}:\n"
                            f"{self.log.read()[-6000:]}")
        return answer

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.log.close()


class Lab:
    """Runs cases, several at a time, and keeps what plain runs gave."""

    def __init__(self, workers: int, steps: int = 3) -> None:
        self.pool = ThreadPoolExecutor(workers)
        self.steps = steps
        self.runners: queue.SimpleQueue[Runner | None] = queue.SimpleQueue()
        for _ in range(workers):
            self.runners.put(None)  # started when it is needed
        self.plain: dict[tuple, Future] = {}  # Case.key -> result
        self.peaks: dict[tuple, Future] = {}  # Case.key -> allocated_peak_bytes
        self.outcomes: dict[Case, Future] = {}

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        while not self.runners.empty():
            runner = self.runners.get()
            if runner is not None:
                runner.close()

    def schedule(self, cases: list[Case]) -> None:
        """Start cases. A task only ever waits for tasks that were put into the pool before it."""
        new = [case for case in cases if case not in self.outcomes]
        for case in new:
            self._schedule_plain(case)
        for case in new:
            if case.is_chaos:
                self.outcomes[case] = self.pool.submit(self._under_chaos, case)
            else:
                self._schedule_peak(case)
        for case in new:
            if not case.is_chaos:
                self.outcomes[case] = self.pool.submit(self._under_budget, case)

    def outcome(self, case: Case) -> Outcome:
        """Return a case's outcome, waiting for it if it is under way."""
        self.schedule([case])
        return self.outcomes[case].result()

    def activation_bytes(self, case: Case) -> int:
        """Return peak - fixed of a case."""
        self._schedule_plain(case)
        self._schedule_peak(case)
        return self.peaks[case.key].result() - self.plain[case.key].result()["fixed_bytes"]

    def largest_operator(self, case: Case) -> dict:
        """Return the operator with the most bytes of operands and results, and these."""
        return self._train(case, None, measure=True)["results"][case.pair]

    def compare(self, case: Case, result: dict) -> str:
        """Return how a result differs from the plain run's, or nothing.

        The promise is for jobs that equal themselves: if bits differ, the plain job runs again.
        """
        plain = self.plain[case.key].result()
        problem = difference(plain, result)
        if problem:
            again = self._train(case, None)["results"][case.pair]
            itself = difference(plain, again)
            problem += f" (the plain job differs from itself: {itself})" if itself else ""
        return problem

    def _train(self, case: Case, settings: dict | None, **more: object) -> dict:
        runner = self.runners.get()
        try:
            runner = runner or Runner()
            return runner.ask({"pairs": [case.pair], "size": case.size, "steps": self.steps,
                               "threads": case.threads, "settings": settings, **more})
        finally:
            self.runners.put(runner if runner and runner.process.poll() is None else None)

    def _schedule_plain(self, case: Case) -> None:
        if case.key not in self.plain:
            self.plain[case.key] = self.pool.submit(
                lambda: self._train(case, None)["results"][case.pair])

    def _schedule_peak(self, case: Case) -> None:
        if case.key not in self.peaks:
            self.peaks[case.key] = self.pool.submit(self._peak, case)

    def _peak(self, case: Case) -> int:
        answer = self._train(case, {"budget": AMPLE})
        problem = self.compare(case, answer["results"][case.pair])
        assert not problem, f"{case.pair} attached without pressure: {problem}"
        assert answer["stats"]["evictions"] == 0
        return answer["stats"]["allocated_peak_bytes"]

    def _under_budget(self, case: Case) -> Outcome:
        plain, peak = self.plain[case.key].result(), self.peaks[case.key].result()
        fixed = plain["fixed_bytes"]
        budget = fixed + int(float(case.pressure) * (peak - fixed))
        settings = {"budget": budget} | ({"room": case.room} if case.room else {})
        answer = self._train(case, settings)
        return Outcome(case, plain, answer["results"][case.pair], budget, answer["stats"])

    def _under_chaos(self, case: Case) -> Outcome:
        plain = self.plain[case.key].result()
        if case.pressure == "chaos":
            answer = self._train(case, {"budget": AMPLE, "chaos": "op"})
            return Outcome(case, plain, answer["results"][case.pair])
        with tempfile.TemporaryDirectory(dir=HERE.parents[1] / "build") as folder:  # on a disk
            answer = self._train(case, {"budget": AMPLE, "chaos": case.pressure,
                                        "offload": f"file:{folder}:8GiB"})
        return Outcome(case, plain, answer["results"][case.pair], stats=answer["stats"])
