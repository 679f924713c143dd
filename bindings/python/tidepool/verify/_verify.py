"""`tidepool verify`: runs a job plain, plain again, and with Tidepool, and compares every step.

If the third run differs, two more runs, one plain and one with Tidepool, record operators up to
that step, to name the one that is to blame. The report goes to standard output; what the first run
prints goes to standard error, and what the others print is shown only where one ends badly.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from .._streams import print_result
from ..settings import _catalog
from ..trust import _trust_file
from . import _operator_log, _runs, _step_log
from ._progress import Progress
from ._recorder import CHECKED, STARTED, Task
from ._runs import CouldNotRun, Interrupted, Run

SAME, DIFFERS, UNSTABLE, COULD_NOT_RUN = 0, 1, 2, 3
_OPERATORS_SHOWN = 5  # of those whose results were tried least


class Verification:
    """The runs of one job, in a folder of their own."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], steps: int | None,
                 folder: Path, trust: Path | None = None) -> None:
        """Take the job's command and its environment with Tidepool's settings and the shim.

        Args:
            trust: a trust file to write; then the job's own operators are checked.
        """
        self._command = list(command)
        self._attached = dict(environ)
        # The shim stays: it brings the recorder in, and without settings it does nothing else.
        self._plain = {name: value for name, value in environ.items()
                       if not name.startswith(_catalog.PREFIX)}
        self._steps = steps
        self._steps_seen: int | None = None  # in the first run
        self._folder = folder
        self._trust = trust
        self._runs = 3 if trust is None else 4
        self._count = 0

    def verdict(self) -> tuple[int, str]:
        """Run the job as often as needed; return the exit status and the report.

        Raises:
            CouldNotRun: the runs show nothing.
            Interrupted: by a signal.
        """
        first = self._run("plain")
        _check_plain(first)
        second = self._run("plain again")
        difference = _step_log.first_difference(first.folder, second.folder,
                                                ended=not second.ended_well)
        if difference:
            return UNSTABLE, _unstable(difference, first)
        _check_plain(second)
        trusted = self._check_operators(first) if self._trust else ""
        third = self._run("with Tidepool")
        _check_attached(third)
        difference = _step_log.first_difference(first.folder, third.folder,
                                                ended=not third.ended_well)
        if difference:
            culprit = self._find_culprit(difference.step, third)
            return DIFFERS, _differs(difference, first, third, culprit)
        if not third.ended_well:
            _check_failure(third, first, self._attached.get("TIDEPOOL_BUDGET"))
            return DIFFERS, _failed(third, first, self._find_culprit(third.steps + 1, third))
        if self._trust:
            shutil.move(self._attached["TIDEPOOL_TRUST"], self._trust)
        return SAME, _same(first, third, self._runs) + trusted

    def _check_operators(self, first: Run) -> str:
        """Check the job's own operators in a further run, and have the next one trust them.

        Returns what was found, to be appended to a report. Where the job itself is not the same in
        that run, something minds that operators run more often, and none of them is trusted.
        """
        run = self._run("plain, operators checked", check=True)
        difference = _step_log.first_difference(first.folder, run.folder, ended=not run.ended_well)
        version, operators = _trust_file.merged(sorted(run.folder.glob(f"*{CHECKED}")))
        reason = ""
        if difference:
            reason = "the job is not the same where the operators are run twice"
        elif not run.ended_well:
            reason = f"the job {run.how_it_ended()} where the operators are run twice"
        for checked in operators.values():
            checked.reason = checked.reason or reason
        path = self._folder / "trust.json"
        _trust_file.write(path, version, operators)
        self._attached["TIDEPOOL_TRUST"] = str(path)
        return _checked(operators)

    def _run(self, name: str, steps: int | None = None, watch: int | None = None,
             check: bool = False) -> Run:
        """Run the job once. Its output goes to standard error, or (from the second on) to a file.
        """
        self._count += 1
        folder = self._folder / f"run_{self._count}"
        folder.mkdir()
        number = f"run {self._count}" + (f" of {self._runs}" if watch is None else "")
        _say(f"{number}, {name}")
        progress = Progress(f"{number}, {name}", folder, steps or self._steps_seen or self._steps,
                            _say)
        task = Task(str(folder), steps or self._steps, watch, check=check)
        environ = self._attached if "Tidepool" in name else self._plain
        run = _runs.record(name, self._command, environ, task, progress, echo=self._count == 1)
        self._steps_seen = self._steps_seen or run.steps
        return run

    def _find_culprit(self, step: int, third: Run) -> str:
        """Return which operator is to blame, in words, from further runs up to the step."""
        otherwise = _restored_otherwise(third)
        starts = [max(1, step - 1), 1]  # further back only if that is not enough
        for start in dict.fromkeys(starts):
            try:
                runs = [self._run(f"{name}, operators from step {start} on", step, start)
                        for name in ("plain", "with Tidepool")]
            except CouldNotRun as problem:
                return f"not found: {problem}{otherwise}"
            found = self._culprits(*runs)
            if any(_names_an_operator(culprit) for culprit in found):
                break
        if not found:
            return "not found: with its operators watched the job did not differ" + otherwise
        return str(next(filter(_names_an_operator, found), found[0]))

    @staticmethod
    def _culprits(plain: Run, attached: Run) -> list:
        """Return the culprit, or the other course, of each process that has one."""
        names = sorted(path.name for path in plain.folder.glob(f"*{_operator_log.SUFFIX}")
                       if (attached.folder / path.name).exists())
        found = (_operator_log.first_culprit(plain.folder / name, attached.folder / name)
                 for name in names)
        return [culprit for culprit in found if culprit]


def main(command: Sequence[str], environ: Mapping[str, str], steps: int | None,
         trust: Path | None = None) -> int:
    """Verify a job and print the report; return the exit status. May write a trust file."""
    with tempfile.TemporaryDirectory(prefix="tidepool-verify-") as folder:
        try:
            status, report = Verification(command, environ, steps, Path(folder), trust).verdict()
        except CouldNotRun as problem:
            status, report = COULD_NOT_RUN, f"could not run: {problem}"
        except Interrupted as interruption:
            _say(str(interruption))
            return interruption.status
        except KeyboardInterrupt:  # between two runs
            return Interrupted(signal.SIGINT).status
        except Exception:  # must not look like a verdict
            traceback.print_exc()
            status, report = COULD_NOT_RUN, "could not run: an error in verify itself"
        print_result(report)
    return status


def _names_an_operator(culprit) -> bool:
    return isinstance(culprit, _operator_log.OtherCourse) or culprit.maker is not None


# -- what is reported ------------------------------------------------------------------------------


def _check_plain(run: Run) -> None:
    if not run.ended_well:
        hint = ""
        if run.name != "plain":
            hint = (". The first run did not fail: does the job mind what that one wrote, such as "
                    "checkpoints?")
        raise CouldNotRun(f"the job fails without Tidepool ({run.name}): it {run.how_it_ended()}"
                          f"{hint}{run.tail()}")
    if run.attached:
        raise CouldNotRun("the job attaches Tidepool by itself in a way that verify cannot prevent")
    if not list(run.folder.glob(f"*{STARTED}")):
        raise CouldNotRun("no process of the job imported PyTorch where we could follow it")
    if not run.steps:
        raise CouldNotRun("the job never called an optimizer's step where it can be seen (PyTorch "
                          "in Python, outside of torch.compile)")


def _check_attached(run: Run) -> None:
    if run.processes and not run.attached:
        raise CouldNotRun(f"Tidepool did not attach to the job{run.tail()}")


def _checked(operators: Mapping[str, _trust_file.Checked]) -> str:
    """Return, to be appended, which operators are trusted, and why others are not."""
    if not operators:
        return "\n  the job calls no operators of its own where they can be checked"
    lines = [f"\n  {name}: " + (f"kept: {checked.reason}" if checked.reason else
                                f"trusted after {_number(checked.calls, 'call')}, "
                                f"{_number(checked.runs, 'further run')}")
             for name, checked in sorted(operators.items())]
    return "".join(lines)


def _same(first: Run, third: Run, runs: int) -> str:
    steps = _number(first.steps, "step")
    report = (f"same: {steps}, each with the same losses, gradients, parameters, buffers and "
              f"random numbers, bit for bit, in all {'three' if runs == 3 else 'four'} runs")
    if len(first.stepping) > 1:
        report += f" of {len(first.stepping)} processes"
    report += (f"\n  with Tidepool: {_number(third.count('evictions'), 'eviction')}, "
               f"{_number(third.count('replays'), 'operator')} replayed")
    report += _coverage(third)
    if not all(p.finished for p in third.stepping):
        report += "\n  note: it ended without its exit handlers; this is as of its last step"
    if all(p.counters for p in third.stepping) and not third.count("evictions"):
        report += "\n  note: nothing was evicted, so this shows little: try a smaller budget"
    unreadable = max(p.unreadable for p in first.stepping)
    if unreadable:
        report += f"\n  note: {_number(unreadable, 'parameter')} of a kind that cannot be compared"
    return report


def _coverage(third: Run) -> str:
    """Return, to be appended, how much of what operators made was tried; nothing without chaos."""
    made: Counter[str] = Counter()
    restored: Counter[str] = Counter()
    for process in third.processes.values():
        for operator, counts in process.coverage.items():
            made[operator] += counts["made"]
            restored[operator] += counts["restored"]
    if not made:
        return ""
    tried = _share(restored.total(), made.total())
    report = (f"\n  evicted and restored at least once: {tried} of "
              f"{_number(made.total(), 'result')} of {_number(len(made), 'operator')}")
    least = sorted(made, key=lambda name: (restored[name] / made[name], -made[name], name))
    few = [f"{name} {_share(restored[name], made[name])} of {made[name]}"
           for name in least[:_OPERATORS_SHOWN]]
    return f"{report}\n    the least: {', '.join(few)}"


def _share(part: int, whole: int) -> str:
    # Neither nothing nor all is claimed of what only comes near it.
    return f"{min(max(round(100 * part / whole), part > 0), 99) if part < whole else 100} %"


def _differs(difference: _step_log.Difference, first: Run, third: Run, culprit: str) -> str:
    report = ("differs: the job equals itself, but not with Tidepool\n"
              f"  {_first(difference, first)}\n  operator: {culprit}")
    if third.count("out_of_memory"):
        report += (f"\n  note: with Tidepool the job ran out of memory "
                   f"{_number(third.count('out_of_memory'), 'time')}; if it reacts to that, try a "
                   "larger budget")
    if not third.ended_well:
        report += f"\n  with Tidepool it {third.how_it_ended()}{third.tail()}"
    return report


def _unstable(difference: _step_log.Difference, first: Run) -> str:
    return ("the job differs from itself: two runs without Tidepool are not the same\n"
            f"  {_first(difference, first)}\n"
            "  Nothing can be said about Tidepool until they are: seed every random number "
            "generator, start from the same\n  files in each run, and see "
            "torch.use_deterministic_algorithms.")


def _check_failure(third: Run, first: Run, budget: str | None) -> None:
    """Raise if the run with Tidepool, equal as far as it came, ended for want of memory."""
    if third.lacked_memory:
        where = f"under the budget of {budget}" if budget else "with Tidepool"
        raise CouldNotRun(f"out of memory: {where} the job {third.how_it_ended()}; "
                          f"{_so_far(third, first)}{third.tail()}")
    if third.status == -signal.SIGKILL:
        raise CouldNotRun(f"with Tidepool the job {third.how_it_ended()}; "
                          f"{_so_far(third, first)}{third.tail()}")


def _failed(third: Run, first: Run, culprit: str) -> str:
    return (f"differs: the job ends well by itself, but with Tidepool it {third.how_it_ended()}; "
            f"{_so_far(third, first)}\n  operator: {culprit}{third.tail()}")


def _restored_otherwise(third: Run) -> str:
    """Return, to be appended, what Tidepool itself noticed; nothing if it was not under chaos."""
    counts = [f"{operator} ({_number(count, 'time')})" for process in third.processes.values()
              for operator, count in process.restored_otherwise.items()]
    if not counts:
        return ""
    return ("; without that, contents made by these came back otherwise than they were evicted: "
            + ", ".join(counts))


def _so_far(third: Run, first: Run) -> str:
    return f"steps that are the same before that: {third.steps} of {first.steps}"


def _first(difference: _step_log.Difference, first: Run) -> str:
    process = f" of {difference.process}" if difference.process else ""
    place = f"step {difference.step} of {max(first.steps, difference.step)}{process}"
    if not difference.is_tensor:
        return f"first difference: {place}: {difference.what}; until then all is the same"
    others = ""
    if difference.others:
        others = f", and {_number(difference.others, 'more tensor')} of this step"
    return f"first difference: {place}: {difference.what}{others}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _say(line: str) -> None:
    print(f"tidepool verify: {line}", file=sys.stderr, flush=True)
