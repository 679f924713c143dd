"""What an out-of-memory error under a budget says, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SIZE = r"(?:[0-9.]+ [KMGTPE]iB \()?([0-9]+) bytes\)?"
_PINNED, _EVICTABLE = "Cannot be evicted now", "Can be evicted"


@dataclass(frozen=True)
class Shortage:
    """Why a request was refused; sizes in bytes. docs/guide.md says what the uses are."""

    asked_bytes: int
    budget_bytes: int
    held_bytes: int  # from the device
    used_bytes: int  # of these
    pinned: dict[str, int] = field(default_factory=dict)  # cannot be evicted: use -> bytes
    evictable: dict[str, int] = field(default_factory=dict)
    largest_servable_bytes: int = 0
    least_budget_bytes: int = 0  # no smaller one can serve this request at this moment
    budget_to_try_bytes: int | None = None
    device_bytes: int | None = None  # the most that the device has given, if it refused more

    @property
    def pinned_bytes(self) -> int:
        """Return how much cannot be evicted."""
        return sum(self.pinned.values())


def shortage(error: BaseException) -> Shortage | None:
    """Return what an out-of-memory error says; None if it is not one of Tidepool's."""
    text = str(error)
    asked = re.search(f"{_SIZE} were asked for, under a budget of {_SIZE}", text)
    held = re.search(rf"Held from the device: {_SIZE}; in use: {_SIZE}", text)
    if not asked or not held:
        return None
    return Shortage(
        int(asked[1]), int(asked[2]), int(held[1]), int(held[2]),
        _table(text, _PINNED), _table(text, _EVICTABLE),
        _after(text, "could have been served: ") or 0, _after(text, "No budget below ") or 0,
        _after(text, "A budget to try: (?:at least )?"),
        _after(text, "The device has given no more than "))


def _after(text: str, start: str) -> int | None:
    found = re.search(start + _SIZE, text)
    return int(found[1]) if found else None


def _table(text: str, title: str) -> dict[str, int]:
    found = re.search(rf"^{title}: {_SIZE}:\n((?:  .*\n)*)", text, re.MULTILINE)
    lines = found[2].splitlines() if found else []
    uses: dict[str, int] = {}
    for line in lines:
        use, size = re.fullmatch(rf"  (.*): {_SIZE}", line).groups()  # type: ignore[union-attr]
        uses[use] = uses.get(use, 0) + int(size)
    return uses
