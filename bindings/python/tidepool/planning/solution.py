"""What a solver is asked for, and what it has found for a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a schedule may take beside memory, and what of it is made small.

    Attributes:
        least_energy: the energy is made small, and not the time.
        most_time: as a multiple of what the step takes without a budget; None: any.
        most_energy: likewise.
        tier_bytes: the size of a second place for contents; 0: there is none.
        tier_ns_a_byte: what a byte takes each way; each copy is waited for.
        tier_nj_a_byte: likewise, in nanojoules.
    """

    least_energy: bool = False
    most_time: float | None = None
    most_energy: float | None = None
    tier_bytes: int = 0
    tier_ns_a_byte: float = 0
    tier_nj_a_byte: float = 0


@dataclass(frozen=True)
class Solution:
    """A schedule and a bound, in the solver's own model.

    Attributes:
        choices: by gap; None: no schedule was found.
        time_ns: of all operators, those that run again included.
        bound: no schedule of the model takes less, in ns; in nJ where the energy is made small.
        seconds: how long the solver took.
        proved: whether it has found the best, or that there is none.
        energy_nj: of the same operators, and of copies.
    """

    choices: list[int] | None
    time_ns: float | None
    bound: float | None
    seconds: float
    proved: bool
    energy_nj: float | None = None
