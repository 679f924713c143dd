"""Reads a recording of what was done for a job (docs/work-ring.md) for the report."""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .history import Group, History
from .trace_reader import (
    ACTIVATIONS,
    EVICTED,
    GRADIENTS,
    INPUTS,
    OPTIMIZER,
    PARAMETERS,
    Operator,
    Storage,
    Trace,
    TraceError,
)

MAGIC, VERSION = b"TideWork", 1
_HEADER = struct.Struct("<8sIIQIIQQII32s128sQIIQ")
_NAMES_AT = 4096
_EVENT = struct.Struct("<QQQIHBB")
_ALREADY = 0x80
_BYTES = (1 << 48) - 1
(_TAKEN, _FREED, _OWNED, _EVICTED, _RESTORED, _REPLAYED, _COPIED, _HELD, _LIMITED, _STEP, _SEARCHED,
 _FORGOTTEN, _OUT_OF_MEMORY, _NEEDED) = range(1, 15)
# By the numbers that the format has: roles, and the reasons that a report has for root reasons.
_ROLES = (ACTIVATIONS, PARAMETERS, OPTIMIZER, INPUTS, GRADIENTS)
_UNTRACKED, _LAST_REASON = 1, 20
_REASONS = {5: "reads address", 14: "address", 15: "address"}
_OF_ROLE = {PARAMETERS: "parameters", OPTIMIZER: "optimizer state", GRADIENTS: "gradients",
            INPUTS: "inputs"}


@dataclass(frozen=True)
class Head:
    """What a recording says of itself."""

    name: str
    device: str
    budget_bytes: int
    process: int
    segment_events: int
    segments: int
    names_bytes: int
    names_used: int
    written: int  # events, those that were written over included
    ended: bool  # in order: not by a signal
    ended_ns: int


@dataclass
class Work:
    """What a recording has of a job, in the shapes that a report is made of."""

    head: Head
    trace: Trace
    history: History
    events: int = 0  # that are there
    lost: int = 0  # events that were written over
    searches_ns: int = 0
    budgets: list[tuple[int, int]] = field(default_factory=list)  # since when, and how much
    shortages: list[tuple[int, int]] = field(default_factory=list)  # when, and what was asked for
    peak_bytes: int = 0  # that were in use at once


def is_recording(path: Path) -> bool:
    """Return whether a file begins as recordings do."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_recording(path: Path) -> Work:
    """Return what a recording has.

    Raises:
        TraceError: it cannot be read, is damaged, or of another version.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    try:
        head = _head(content)
        reader = _Reader(path, head, _names(content, head))
        for number, event in _events(content, head):
            reader.add(number, *event)
        return reader.finish()
    except ValueError as error:
        raise TraceError(f"{path}: {error}") from error


# -- the file --------------------------------------------------------------------------------------


def _head(content: bytes) -> Head:
    if content[:len(MAGIC)] != MAGIC:
        raise ValueError("is no recording of `tidepool run --record`")
    if len(content) < _HEADER.size:
        raise ValueError("the recording is cut short: it ends within its header")
    (_, version, event_bytes, segment_events, segments, names_bytes, _, budget, process, _,
     device, name, written, names_used, ended, ended_ns) = _HEADER.unpack_from(content)
    if version != VERSION:
        raise ValueError(f"the recording has version {version}, this Tidepool reads {VERSION}")
    if event_bytes != _EVENT.size or not segment_events or not segments \
            or names_used > names_bytes or ended > 1:
        raise ValueError("the recording's header is damaged")
    return Head(_text(name), _text(device), budget, process, segment_events, segments, names_bytes,
                names_used, written, bool(ended), ended_ns)


def _text(field_bytes: bytes) -> str:
    return field_bytes.partition(b"\0")[0].decode(errors="replace")


def _names(content: bytes, head: Head) -> list[str]:
    names, at, end = [""], _NAMES_AT, _NAMES_AT + head.names_used
    if end > len(content):
        raise ValueError("the recording is cut short: it ends within its names")
    while at < end:
        length = int.from_bytes(content[at:at + 2], "little")
        if at + 2 + length > end:
            raise ValueError("the recording's names are damaged")
        names.append(content[at + 2:at + 2 + length].decode(errors="replace"))
        at += 2 + length
    return names


def _events(content: bytes, head: Head) -> Iterator[tuple[int, tuple]]:
    """Yield the events that are there, each with its number, from the start of a segment."""
    room = head.segment_events * head.segments
    first = 0
    if head.written > room:  # the segment that is being written has only its own new events
        segment = (head.written - 1) // head.segment_events
        first = (segment - head.segments + 1) * head.segment_events
    start = _NAMES_AT + head.names_bytes
    if start + min(head.written, room) * _EVENT.size > len(content):
        raise ValueError("the recording is cut short: it has fewer events than its header says")
    for number in range(first, head.written):
        at = start + number % room * _EVENT.size
        if _folded(content[at:at + _EVENT.size]) != 0xA5:
            raise ValueError(f"event {number} of the recording is damaged")
        yield number, _EVENT.unpack_from(content, at)


def _folded(event: bytes) -> int:
    folded = 0
    for word in array("Q", event):
        folded ^= word
    folded ^= folded >> 32
    folded ^= folded >> 16
    return (folded ^ folded >> 8) & 0xFF


# -- what it says ----------------------------------------------------------------------------------


class _Reader:
    def __init__(self, path: Path, head: Head, names: list[str]) -> None:
        self._head, self._names = head, names
        self._work = Work(head, Trace(path, head.name, head.device), History(head.budget_bytes))
        self._numbers: dict[Group, int] = {}
        self._makers: list[str] = []  # by group
        self._calls: dict[str, int] = {}  # by name: an operator that stands for all of that name
        self._blocks: dict[int, tuple[int, int]] = {}  # by offset: bytes, group
        self._evicted: dict[int, int] = {}  # by storage: its group when it was resident
        self._origin: int | None = None  # when the first event was
        self._now = self._spent = self._resident = 0
        self._last_evicted: tuple[int, int, int] | None = None  # storage, offset, group
        self._moving: set[int] = set()  # storages whose blocks are being moved
        self._segment = -1
        self._was_lost = False  # the storage that was restored last had been evicted, not moved

    def add(self, number: int, time: int, where: int, packed: int, storage: int, label: int,
            kind: int, _check: int) -> None:
        if label >= len(self._names):
            raise ValueError(f"event {number} of the recording names an operator that is not there")
        already, kind = bool(kind & _ALREADY), kind & ~_ALREADY
        if not _TAKEN <= kind <= _NEEDED:
            raise ValueError(f"event {number} of the recording is of an unknown kind, {kind}")
        if self._origin is None:
            self._origin = time
        self._now = max(self._now, time - self._origin)  # threads may be a little out of order
        self._work.events += 1
        size, role, reason = packed & _BYTES, packed >> 48 & 0xFF, packed >> 56
        if already and self._segment >= 0:
            return  # it follows from what came before
        if not already:
            self._segment = number // self._head.segment_events
        name = self._names[label]
        if kind == _TAKEN:
            self._block(where, size, self._group(ACTIVATIONS, name, ""))
        elif kind == _FREED:
            self._block(where, 0, 0)
        elif kind == _OWNED:
            role = self._role(number, role)
            self._block(where, size, self._group(role, name, self._pin(number, role, reason)))
        elif kind == _EVICTED:
            self._evict(storage, where, size, name, already)
        elif kind == _RESTORED:
            self._restore(storage, where, size, name)
        elif kind == _NEEDED:
            if self._was_lost:
                self._work.history.loss_calls[-1] = self._call(name or "(outside of operators)")
        elif kind == _REPLAYED:
            self._replay(name, where)
        elif kind == _COPIED:
            self._copy(where, size)
        elif kind == _FORGOTTEN:
            self._lose_evicted(storage)
        else:
            self._note_state(kind, where, size)

    def finish(self) -> Work:
        work, history = self._work, self._work.history
        if not work.events:
            raise ValueError("nothing was recorded: the job has used no memory")
        work.lost = self._head.written - work.events
        history.end_ns = max(self._now, 1)
        history.groups = list(self._numbers)
        lost_ns = work.searches_ns + sum(
            work.trace.operators[call].cost_ns for call in history.replay_calls)
        history.overhead = history.end_ns / max(history.end_ns - lost_ns, 1)
        work.trace.steps = len(history.step_ends)
        if not history.step_ends:
            history.step_ends.append(history.end_ns)
        work.trace.events = work.events
        return work

    def _role(self, number: int, role: int) -> int:
        if role >= len(_ROLES):
            raise ValueError(f"event {number} of the recording has an unknown role, {role}")
        return _ROLES[role]

    @staticmethod
    def _pin(number: int, role: int, reason: int) -> str:
        if reason > _LAST_REASON:
            raise ValueError(f"event {number} of the recording has an unknown reason, {reason}")
        if reason == 0:
            return ""
        of_role = _OF_ROLE.get(role, "inputs" if reason == _UNTRACKED else "unreplayable")
        return _REASONS.get(reason, of_role)

    def _group(self, role: int, name: str, pin: str) -> int:
        group = (role, name, -1, pin)
        if group not in self._numbers:
            self._numbers[group] = len(self._numbers)
            self._makers.append(name)
        return self._numbers[group]

    def _call(self, name: str) -> int:
        """Return the number of an operator that stands for all calls of that name."""
        if name not in self._calls:
            self._calls[name] = self._add_operator(name, 0)
        return self._calls[name]

    def _add_operator(self, name: str, ns: int) -> int:
        operators = self._work.trace.operators
        operators.append(Operator(name, ns, -1, 1, (), (), (), True))
        return len(operators) - 1

    # -- memory ------------------------------------------------------------------------------------

    def _note(self, where: int, size: int, group: int) -> None:
        history = self._work.history
        history.times.append(self._now)
        history.where.append(where)
        history.sizes.append(size)
        history.whose.append(group)

    def _block(self, offset: int, size: int, group: int) -> None:
        before = self._blocks.pop(offset, None)
        if before is None and not size:
            return  # it was there before the recording began, which could not hold all
        if size:
            self._blocks[offset] = (size, group)
        self._resident += size - (before[0] if before else 0)
        self._work.peak_bytes = max(self._work.peak_bytes, self._resident)
        self._note(offset, size, group if size else before[1] if before else 0)

    def _evict(self, storage: int, offset: int, size: int, name: str, already: bool) -> None:
        group = self._group(ACTIVATIONS, name, "")
        self._evicted[storage] = group
        self._note(-1 - storage, size, self._group(EVICTED, name, ""))
        if already:
            return
        self._last_evicted = (storage, offset, group)
        self._lose(group, size, 0)
        self._work.history.often.setdefault(group, Counter())[storage] += 1
        self._know(storage, size)

    def _restore(self, storage: int, offset: int, size: int, name: str) -> None:
        group = self._lose_evicted(storage)
        group = self._group(ACTIVATIONS, name, "") if group is None else group
        if offset in self._blocks:
            self._block(offset, self._blocks[offset][0], group)
        self._was_lost = storage not in self._moving
        if storage in self._moving:
            self._moving.discard(storage)
        else:
            self._lose(group, -size, self._spent)
        self._spent = 0

    def _lose_evicted(self, storage: int) -> int | None:
        group = self._evicted.pop(storage, None)
        if group is not None:
            self._note(-1 - storage, 0, self._group(EVICTED, self._makers[group], ""))
        return group

    def _know(self, storage: int, size: int) -> None:
        storages = self._work.trace.storages
        while len(storages) <= storage:
            storages.append(Storage(0, ACTIVATIONS, -1))
        storages[storage].bytes = size

    def _lose(self, group: int, size: int, spent: int) -> None:
        self._work.history.lose(self._now, group, size, spent, self._call("(unknown)"))

    def _replay(self, name: str, ns: int) -> None:
        history = self._work.history
        history.replay_times.append(self._now)
        history.replay_calls.append(self._add_operator(name, ns))
        self._spent += ns

    def _copy(self, offset: int, size: int) -> None:
        """Take back the eviction of a block whose contents were copied: it is being moved."""
        if self._last_evicted is None or self._last_evicted[1] != offset:
            return
        storage, _, group = self._last_evicted
        self._last_evicted = None
        self._work.history.take_back(storage, group, size)
        self._moving.add(storage)

    # -- the rest ----------------------------------------------------------------------------------

    def _note_state(self, kind: int, where: int, size: int) -> None:
        work, history = self._work, self._work.history
        if kind == _HELD:
            history.held_times.append(self._now)
            history.held_sizes.append(size)
        elif kind == _LIMITED:
            work.budgets.append((self._now, size))
        elif kind == _STEP:
            history.step_ends.append(self._now)
        elif kind == _SEARCHED:
            work.searches_ns += where
        elif kind == _OUT_OF_MEMORY:
            work.shortages.append((self._now, size))
