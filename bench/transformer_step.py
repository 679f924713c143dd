"""What Tidepool adds to a training step of a 4-layer transformer while the budget is ample.

Four comparisons, each interleaved: in one attached process, interception on against off on the
thread; a plain process against an attached one, which take turns; an attached one against one
whose trace is recorded; and against one that `tidepool top` can see and that is recorded
(`--record`). With `--tight` the last also under a smaller budget, where steps evict. Times are of
the processor (all threads), so that other programs on the machine count little. In percent of the
step.
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
STEPS_TOGETHER = 10


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


def compared(label: str, names: tuple[str, str, str], base: list[float],
             ours: list[float]) -> list[measure.Result]:
    """Return the lines of two runs that took turns, and of what was added, by these names."""
    return [measure.summarize(f"{label}: {names[0]}", "ms", base),
            measure.summarize(f"{label}: {names[1]}", "ms", ours),
            percent(base, ours, f"{label}: added by the {names[2]}")]


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
    return compared(f"d={width}, {operators} operators", ("thread off", "thread on", "thread"),
                    off, on)


class Worker:
    """A process that takes a step whenever it is asked to."""

    def __init__(self, attached: bool, width: int, *options: object, budget: str = BUDGET) -> None:
        command = [sys.executable, __file__, "--worker", "--width", str(width)]
        if attached:
            command = [sys.executable, "-m", "tidepool", "run", "--budget", budget,
                       *map(str, options), "--", *command]
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
    return compared(f"d={width}", ("plain process", "attached process", "process"), base, ours)


def compare_options(width: int, rounds: int, budget: str,
                    *options: object) -> tuple[list[float], list[float]]:
    """Return the times of an attached process without and with options.

    Threads beside the job work in bursts, some steps late: of STEPS_TOGETHER their share is whole.
    """
    plain, ours = Worker(True, width, budget=budget), Worker(True, width, *options, budget=budget)

    def several(worker: Worker) -> float:
        return sum(worker.step() for _ in range(STEPS_TOGETHER)) / STEPS_TOGETHER

    times = take_turns(lambda: several(plain), lambda: several(ours), max(rounds // 3, 1))
    plain.end()
    ours.end()
    return times


def measure_trace(width: int, rounds: int) -> list[measure.Result]:
    """Compare an attached process with one whose trace is recorded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl.gz"
        base, ours = compare_options(width, rounds, BUDGET, "--trace", path)
        kilobytes = path.stat().st_size / 1e3 / (STEPS_TOGETHER * len(ours))
    return compared(f"d={width}, {kilobytes:.1f} kB a step", ("no trace", "a trace", "trace"),
                    base, ours)


def measure_instruments(width: int, rounds: int, budget: str) -> list[measure.Result]:
    """Compare an attached process with one that is seen by `top` and recorded."""
    with tempfile.TemporaryDirectory() as folder:
        base, ours = compare_options(width, rounds, budget, "--top", "--record",
                                     Path(folder) / "job.rec")
    return compared(f"d={width}, {budget}", ("no instruments", "top and record", "instruments"),
                    base, ours)


def main() -> None:
    parser = measure.options(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worker", action="store_true", help="used by this program itself")
    parser.add_argument("--only-thread", action="store_true", help="skip all processes")
    parser.add_argument("--only-trace", action="store_true", help="skip all but the trace")
    parser.add_argument("--only-instruments", action="store_true", help="skip all but these")
    parser.add_argument("--tight", metavar="BUDGET", help="measure the instruments under it, too")
    parsed = parser.parse_args()
    width, rounds = (32, 3) if parsed.smoke else (parsed.width, parsed.rounds)
    torch.set_num_threads(parsed.threads)
    gc.disable()  # a collection would fall into a step at random
    if parsed.worker:
        work(parsed.width)
        return
    results = []
    wanted = [part for part in ("thread", "trace", "instruments")
              if getattr(parsed, f"only_{part}")] or ["processes", "trace", "instruments", "thread"]
    if "processes" in wanted:
        results += measure_processes(width, rounds)
    if "trace" in wanted:
        results += measure_trace(width, rounds)
    if "instruments" in wanted:
        for budget in filter(None, (BUDGET, parsed.tight)):
            results += measure_instruments(width, rounds, budget)
    if "thread" in wanted:
        results += measure_thread(width, rounds)
    measure.report(parsed, results)


if __name__ == "__main__":
    main()
