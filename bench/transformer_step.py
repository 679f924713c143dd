"""What Tidepool adds to a training step of a 4-layer transformer while the budget is ample.

Three comparisons, each interleaved: in one attached process, interception on against off on the
thread; a plain process against an attached one, which take turns; and an attached one against one
whose trace is recorded. Times are of the processor (all threads), so that other programs on the
machine count little. In percent of the step.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import measure
import torch
from environments import clean_environment
from torch import nn

GOAL_PERCENT = 5.0
LAYERS, HEADS, VOCABULARY, BATCH, LENGTH = 4, 4, 512, 8, 64
BUDGET = "2GiB"


def make_step(width: int) -> Callable[[], float]:
    """Return a function that takes one training step and returns its ms of processor time."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, HEADS, 4 * width, dropout=0.1, batch_first=True,
                                       norm_first=True)
    model = nn.Sequential(nn.Embedding(VOCABULARY, width),
                          nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False),
                          nn.Linear(width, VOCABULARY))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))

    def step() -> float:
        start = time.process_time()
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return (time.process_time() - start) * 1e3

    return step


def percent(base: list[float], ours: list[float], name: str) -> measure.Result:
    """Return what paired runs add, in percent of the smallest base run."""
    unit = min(base) / 100
    return measure.added(name, "%", [t / unit for t in base], [t / unit for t in ours],
                         GOAL_PERCENT)


def take_turns(first: Callable[[], float], second: Callable[[], float],
               rounds: int) -> tuple[list[float], list[float]]:
    """Return the times of both, run alternately, each first every other time."""
    times: tuple[list[float], list[float]] = ([], [])
    for k in range(rounds):
        for which in ((0, 1), (1, 0))[k % 2]:
            times[which].append((first, second)[which]())
    return times


def measure_thread(width: int, rounds: int) -> list[measure.Result]:
    """Compare interception on and off in this process."""
    plugin = measure.attach(BUDGET)
    step = make_step(width)

    def run(on: int) -> float:
        plugin.thread(on)
        return step()

    for _ in range(3):
        run(1)
    before = plugin.statistics()["cpu"]["operators_seen"]
    run(1)
    operators = plugin.statistics()["cpu"]["operators_seen"] - before
    off, on = take_turns(lambda: run(0), lambda: run(1), rounds)
    label = f"d={width}, {operators} operators"
    return [measure.summarize(f"{label}: thread off", "ms", off),
            measure.summarize(f"{label}: thread on", "ms", on),
            percent(off, on, f"{label}: added by the thread")]


class Worker:
    """A process that takes a step whenever it is asked to."""

    def __init__(self, attached: bool, width: int, trace: Path | None = None) -> None:
        command = [sys.executable, __file__, "--worker", "--width", str(width)]
        if attached:
            traced = ["--trace", str(trace)] if trace else []
            command = [sys.executable, "-m", "tidepool", "run", "--budget", BUDGET, *traced, "--",
                       *command]
        environ = clean_environment(TIDEPOOL_QUIET="1", CUDA_VISIBLE_DEVICES="")
        self.process = subprocess.Popen(command, env=environ, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.step()

    def step(self) -> float:
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise RuntimeError(f"the worker ended with {self.process.returncode}")


def work(width: int) -> None:
    """Be a worker: one line in, one step, its time out."""
    step = make_step(width)
    for _ in range(3):
        step()
    for _ in sys.stdin:
        print(step(), flush=True)


def measure_processes(width: int, rounds: int) -> list[measure.Result]:
    """Compare a plain process with an attached one."""
    plain, attached = Worker(False, width), Worker(True, width)
    base, ours = take_turns(plain.step, attached.step, rounds)
    plain.end()
    attached.end()
    return [measure.summarize(f"d={width}: plain process", "ms", base),
            measure.summarize(f"d={width}: attached process", "ms", ours),
            percent(base, ours, f"d={width}: added by the process")]


def measure_trace(width: int, rounds: int) -> list[measure.Result]:
    """Compare an attached process with one that is recorded.

    The recorder's thread works in bursts, some steps late: of 10 steps together its share is whole.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl.gz"
        plain, traced = Worker(True, width), Worker(True, width, path)

        def several(worker: Worker) -> float:
            return sum(worker.step() for _ in range(10)) / 10

        base, ours = take_turns(lambda: several(plain), lambda: several(traced), rounds // 3)
        plain.end()
        traced.end()
        kilobytes = path.stat().st_size / 1e3 / (10 * (rounds // 3))
    label = f"d={width}, {kilobytes:.1f} kB a step"
    return [measure.summarize(f"{label}: no trace", "ms", base),
            measure.summarize(f"{label}: a trace", "ms", ours),
            percent(base, ours, f"{label}: added by the trace")]


def main() -> None:
    parser = measure.options(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worker", action="store_true", help="used by this program itself")
    parser.add_argument("--only-thread", action="store_true", help="skip all processes")
    parser.add_argument("--only-trace", action="store_true", help="skip all but the trace")
    parsed = parser.parse_args()
    width, rounds = (32, 3) if parsed.smoke else (parsed.width, parsed.rounds)
    torch.set_num_threads(parsed.threads)
    gc.disable()  # a collection would fall into a step at random
    if parsed.worker:
        work(parsed.width)
        return
    results = []
    if not parsed.only_thread:
        if not parsed.only_trace:
            results += measure_processes(width, rounds)
        results += measure_trace(width, rounds)
    if parsed.only_trace:
        measure.report(parsed, results)
        return
    measure.report(parsed, results + measure_thread(width, rounds))


if __name__ == "__main__":
    main()
