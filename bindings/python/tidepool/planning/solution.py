"""What a solver has found for a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Solution:
    """A schedule and a bound, in the solver's own model.

    Attributes:
        choices: by gap; None: no schedule was found.
        time_ns: of all operators, those that run again included.
        bound_ns: no schedule of the model takes less.
        seconds: how long the solver took.
        proved: whether it has found the best, or that there is none.
    """

    choices: list[int] | None
    time_ns: float | None
    bound_ns: float | None
    seconds: float
    proved: bool
