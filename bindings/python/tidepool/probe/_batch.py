"""`tidepool probe --batch`: the largest batch that fits a budget.

Small batches are recorded and their least budgets simulated; what a sample takes follows from two
of them. The size predicted so, and its neighbours, then run under the budget for real.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .._streams import print_result
from ..settings._sizes import as_argument
from ..verify._runs import CouldNotRun
from . import _probe, _simulation
from ._probe import GRID, PRECISION, Probe

_GROWTH = 4  # from one recorded size to the next
_PARTS = 64  # the first neighbour tried is that part of the prediction away: simulations are good


@dataclass(frozen=True)
class Batches:
    """The word of the command that stands for the size, and the sizes that may be tried."""

    placeholder: str
    low: int
    high: int


class BatchProbe:
    """Looks for the largest batch of one job. Results go into the probe's."""

    def __init__(self, probe: Probe, batches: Batches, memory_bytes: int) -> None:
        self._probe, self._batches, self._memory = probe, batches, memory_bytes
        self._result = probe.result

    def run(self) -> bool:
        """Look for it, and prove it; return whether there is one. Raises as `Probe.run` does."""
        low, high = self._batches.low, self._batches.high
        self._result |= {"memory_bytes": self._memory, "least_by_batch": {}, "tried": {}}
        predicted = self._predicted(low, high)
        self._result["predicted"] = predicted
        found = largest(self._fits, predicted, low, high)
        self._result["largest"] = found
        if found:
            self._result["command"] = self._command(found)
        return found is not None

    def _predicted(self, low: int, high: int) -> int:
        """Return the size that should fit, by simulation of recorded ones.

        A small batch may need its memory for other things, such as the optimizer's state, than a
        large one does: larger ones are recorded until one is at least half as large.
        """
        if low == high:
            return low
        sizes = [low, min(2 * low, high)]
        least = [self._least(size) for size in sizes]
        while True:
            line = (sizes[-2], sizes[-1]), (least[-2], least[-1])
            predicted = min(max(predict(*line, self._memory), low), high)
            if predicted <= 2 * sizes[-1]:
                return predicted
            sizes.append(min(_GROWTH * sizes[-1], predicted))
            least.append(self._least(sizes[-1]))

    def _command(self, size: int) -> list[str]:
        return [word.replace(self._batches.placeholder, str(size))
                for word in self._probe.command]

    def _least(self, size: int) -> int:
        """Return the least budget of a batch in simulation."""
        simulation = self._probe.record(self._command(size))
        peak = simulation.peak_bytes
        least = _simulation.least_budget(simulation, lambda point: point.runs,
                                         max(peak // PRECISION, 1),
                                         [peak * share // 100 for share in GRID])
        if least is None:
            raise CouldNotRun(f"a batch of {size} does not run in simulation, even in the "
                              f"{peak} bytes that it holds at most")
        self._result["least_by_batch"][str(size)] = least.budget_bytes
        return least.budget_bytes

    def _fits(self, size: int) -> bool:
        """Run the job with a batch of this size under the budget."""
        run = self._probe.under(self._memory, f"batch {size} under {as_argument(self._memory)}",
                                self._command(size))
        fits = run.ended_well and not run.lacked_memory
        if not fits and not run.lacked_memory:
            raise CouldNotRun(f"with a batch of {size} the job {run.how_it_ended()}{run.tail()}")
        self._result["tried"][str(size)] = fits
        return fits


def predict(sizes: tuple[int, int], least: tuple[int, int], memory_bytes: int) -> int:
    """Return the size at which a line through two sizes' least budgets meets the memory."""
    per_sample = max((least[1] - least[0]) / (sizes[1] - sizes[0]), 1)
    return int(sizes[0] + (memory_bytes - least[0]) / per_sample)


def largest(fits: Callable[[int], bool], guess: int, low: int, high: int) -> int | None:
    """Return the largest size that fits, with few tries where the guess is good; None if none does.

    The step from the guess doubles until a size that fits and one that does not are known.
    """
    good = bad = guess
    step = max(guess // _PARTS, 1)
    if fits(guess):
        while bad == good:
            if good == high:
                return good
            following = min(good + step, high)
            if fits(following):
                good = bad = following
            else:
                bad = following
            step *= 2
    else:
        while bad == good:
            if bad == low:
                return None
            following = max(bad - step, low)
            if fits(following):
                good = following
            else:
                good = bad = following
            step *= 2
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def report(result: Mapping) -> str:
    """Return what is known as text."""
    if "problem" in result:
        return f"could not run: {result['problem']}"
    budget = as_argument(result["memory_bytes"])
    lines = [f"batch {size}: runs from {as_argument(least)} on, in simulation"
             for size, least in result["least_by_batch"].items()]
    if "predicted" in result:
        lines.append(f"predicted for {budget}: {result['predicted']}")
    tried = result["tried"]
    for fits, what in ((True, "ran"), (False, "ran out of memory")):
        if sizes := sorted(int(size) for size, it_fits in tried.items() if it_fits == fits):
            lines.append(f"{what} under {budget}: {', '.join(map(str, sizes))}")
    if result.get("largest"):
        lines += [f"largest batch: {result['largest']}",
                  _probe.command_line(result, result["memory_bytes"])]
    elif "largest" in result:
        lines.append(f"no batch fits {budget}")
    else:
        lines.append("interrupted before the largest was known")
    return "\n".join(lines)


def main(command: Sequence[str], make_environ: _probe.MakeEnviron, wish: _probe.Wish,
         batches: Batches, as_json: bool) -> int:
    """Look for the largest batch and print it; return the exit status as `probe` does."""
    assert wish.memory_bytes is not None
    with tempfile.TemporaryDirectory(prefix="tidepool-probe-") as folder:
        probe = Probe(command, make_environ, wish, Path(folder), _probe.say)
        status = _probe.attempt(BatchProbe(probe, batches, wish.memory_bytes).run, probe.result)
    if as_json:
        _probe.print_json(probe.result, status)
    else:
        print_result(report(probe.result))
    return status
