"""Operator logs as the recorder writes them: which operator made what first went wrong."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from . import _fingerprint, _json_lines

SUFFIX = ".operators"


@dataclass(frozen=True)
class Call:
    """One operator call: its name, and the how-manyeth of its step it is."""

    operator: str
    step: int
    number: int

    def __str__(self) -> str:
        return f"{self.operator} (call {self.number} of step {self.step})"


@dataclass(frozen=True)
class Culprit:
    """The first tensor with other contents where it is read, and the call that made it.

    Attributes:
        maker: None if the tensor is older than what was watched, or no operator made it.
        reader: the operator call; None if it was the recorder.
        tensor: how the reader calls it: argument or label, and shape.
        was_equal: the maker's result was right when made, so it was kept or restored wrongly.
        was_lost: there it cannot be read at all.
        passed_on: the last call that returned an alias of it which its schema does not show.
    """

    maker: Call | None
    reader: Call | None
    tensor: str
    was_equal: bool = True
    was_lost: bool = False
    passed_on: Call | None = None

    def __str__(self) -> str:
        reader = str(self.reader) if self.reader else "the comparison"
        maker = f"{self.maker}"
        if self.passed_on:
            maker += f", passed on by {self.passed_on}"
        if self.was_lost:
            made = f"{maker}: what it made" if self.maker else "a tensor"
            return f"{made} cannot be restored where {reader} reads it ({self.tensor})"
        if self.maker is None:
            return (f"{reader} reads other contents ({self.tensor}) of a tensor made outside of "
                    "the watched operators")
        if self.was_equal:
            return (f"{maker}: what it made was kept or restored with other contents, "
                    f"first read by {reader} ({self.tensor})")
        return (f"{maker}: other results from the same inputs, first read by {reader} "
                f"({self.tensor})")


@dataclass(frozen=True)
class OtherCourse:
    """The first place at which the runs call different operators, having read the same contents."""

    call: Call | None  # None: backward or a step begins or ends there, or the run does
    instead: Call | None  # in the plain run
    ended: bool = False

    def __str__(self) -> str:
        if self.ended:
            return (f"with Tidepool the job ends where the plain run calls {self.instead}, and all "
                    "that was read before is the same")
        does, instead = (f"calls {call}" if call else "begins or ends backward or a step"
                         for call in (self.call, self.instead))
        return (f"with Tidepool the job {does} where the plain run {instead}, and all that was "
                "read before is the same")


def first_culprit(expected: Path, got: Path) -> Culprit | OtherCourse | None:
    """Return what first differs between two operator logs, or None.

    What is written and never read does not count: it may be memory that nobody filled.
    """
    calls: dict[int, tuple[Call, list[bool]]] = {}
    numbers: dict[int, int] = {}
    others = _json_lines.read(got)
    for left in _json_lines.read(expected):
        right, step = next(others, None), left["step"]
        numbers[step] = numbers.get(step, 0) + bool(left["operator"])
        call = Call(left["operator"], step, numbers[step]) if left["operator"] else None
        if right is None:
            return OtherCourse(None, call, ended=True) if call else None
        if (left["operator"], step) != (right["operator"], right["step"]):
            other = Call(right["operator"], right["step"], numbers[step])
            return OtherCourse(other if right["operator"] else None, call)
        for read, other in zip(left["reads"], right["reads"], strict=False):
            if read[1] != other[1]:
                return _culprit(read, other[1], call, calls)
        same = [a == b for a, b in itertools.zip_longest(left["writes"], right["writes"])]
        if call:
            calls[left["call"]] = call, same
    return None


def _culprit(read: list, got: str, reader: Call | None, calls: dict) -> Culprit:
    name, _, made_by, shape = read
    tensor = f"{name}, {shape}" if shape else name
    maker, same = calls.get(made_by[0], (None, [])) if made_by else (None, [])
    was_equal = same[made_by[1]] if maker and made_by[1] < len(same) else True
    passed_on = calls.get(made_by[2], (None, []))[0] if made_by and made_by[2:] else None
    return Culprit(maker, reader, tensor, was_equal, _fingerprint.is_unreadable(got), passed_on)
