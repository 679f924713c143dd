"""What is done for a job under a budget: tidepool-replay's history of its last iteration, read.

A history is a list of changes of memory in the order of time. Memory is a set of places: a block,
named by its offset in the address range, or the contents of an evicted storage, named by a number
below zero. Each place has bytes and belongs to a group: what is alike in a table of the report.
Time is that of the simulation: operators, replays and copies, each as long as recorded. A change
while an operator runs, or before the next one begins, counts at the operator's beginning, but for
the time of replays and copies until then.
"""

from __future__ import annotations

import json
import subprocess
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ..probe._replay import PROGRAM
from . import pins
from .trace_reader import EVICTED, KEPT, Trace

# Role, name of the operator that made it, number of the place where that was called, and why it
# cannot be evicted ("": it can).
Group = tuple[int, str, int, str]


class SimulationFailed(Exception):
    """The job does not run under the budget; the message says why."""


@dataclass
class Loss:
    """What the evictions of one group have cost."""

    evictions: int = 0
    bytes: int = 0
    restorations: int = 0
    replay_ns: int = 0


def _longs() -> array:
    return array("q")


def _numbers() -> array:
    return array("i")


@dataclass
class History:
    """The last iteration under a budget."""

    budget_bytes: int
    overhead: float = 1.0
    groups: list[Group] = field(default_factory=list)
    end_ns: int = 0
    # Changes: when, where, the bytes that are there from then on (0: nothing), and their group.
    times: array = field(default_factory=_longs)
    where: array = field(default_factory=_longs)
    sizes: array = field(default_factory=_longs)
    whose: array = field(default_factory=_numbers)
    # Evictions and restorations: when, of which group, bytes (below zero: restored), the time of
    # the replays for it, and the call that needed it.
    loss_times: array = field(default_factory=_longs)
    loss_groups: array = field(default_factory=_numbers)
    loss_bytes: array = field(default_factory=_longs)
    loss_ns: array = field(default_factory=_longs)
    loss_calls: array = field(default_factory=_numbers)
    # Replays: when, of which call, and how long.
    replay_times: array = field(default_factory=_longs)
    replay_calls: array = field(default_factory=_numbers)
    # What is held from the device: since when, and how much.
    held_times: array = field(default_factory=_longs)
    held_sizes: array = field(default_factory=_longs)
    moves: int = 0  # blocks whose contents were copied elsewhere to make room
    moved_bytes: int = 0
    remapped_bytes: int = 0  # of pages that were mapped elsewhere
    step_ends: list[int] = field(default_factory=list)
    # By group: which storages of it were evicted, and how often.
    often: dict[int, Counter] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget the iteration, but for its groups."""
        for name in ("times", "where", "sizes", "whose", "loss_times", "loss_groups", "loss_bytes",
                     "loss_ns", "loss_calls", "replay_times", "replay_calls", "held_times",
                     "held_sizes", "step_ends"):
            del getattr(self, name)[:]
        self.often.clear()
        self.moves = self.moved_bytes = 0

    def lose(self, time: int, group: int, size: int, spent: int, call: int) -> None:
        """Note an eviction or, with a size below zero, a restoration."""
        for losses, value in zip(self._losses(), (time, group, size, spent, call), strict=True):
            losses.append(value)

    def take_back(self, storage: int, group: int, size: int) -> None:
        """Forget the last eviction, of this storage: its contents were copied to another block."""
        for losses in self._losses():
            losses.pop()
        often = self.often[group]
        often[storage] -= 1
        if not often[storage]:
            del often[storage]
        if not often:
            del self.often[group]
        self.moves += 1
        self.moved_bytes += size

    def _losses(self) -> tuple[array, ...]:
        return (self.loss_times, self.loss_groups, self.loss_bytes, self.loss_ns, self.loss_calls)


def record(trace: Trace, source: Path, budget: int, iterations: int, folder: Path) -> History:
    """Run a trace under a budget and return what was done in the last iteration.

    Raises:
        SimulationFailed: it does not run, or there is no history.
    """
    log = folder / "history"
    command = [str(PROGRAM), str(source), "--budget", str(budget), "--policy", "default", "--json",
               "--jobs", "1", "--iterations", str(iterations), "--history", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if not lines:
        raise SimulationFailed(done.stderr.strip() or f"{PROGRAM.name} said nothing")
    result = json.loads(lines[-1])
    if result["status"] != "ok":
        raise SimulationFailed(f"the job does not run: {result['status'].replace('_', ' ')}")
    history = History(budget, result["overhead"], remapped_bytes=result["remapped_bytes"])
    reader = _Reader(trace, history)
    with log.open() as text:
        for line in text:
            reader.add(line)
    reader.finish()
    return history


class _Reader:
    def __init__(self, trace: Trace, history: History) -> None:
        self._trace, self._history = trace, history
        self._numbers: dict[Group, int] = {}
        self._kept = self._number((KEPT, "", -1, ""))
        self._groups: dict[int, tuple[int, int]] = {}  # by storage: its group, and that if evicted
        self._blocks: dict[int, list[int]] = {}  # by offset: bytes, group, storage or -1
        self._offsets: dict[int, int] = {}  # by storage
        self._evicted: set[int] = set()
        self._dead: set[int] = set()
        self._held = 0
        self._start_over()

    def _start_over(self) -> None:
        self._now = self._spent = 0
        self._call = 0
        self._charges: dict[int, int] = {}  # by evicted storage: the time of replays for it
        self._last_evicted = -1  # the storage of the line before, if that is an eviction
        self._moving = -1

    # -- lines -------------------------------------------------------------------------------------

    def add(self, line: str) -> None:
        first, what, *rest = line.split() if line[0] != "i" else ("0", "iteration")
        call = int(first)
        if call != self._call:
            self._advance(call)
        evicted, self._last_evicted = self._last_evicted, -1
        if what == "allocate":
            self._allocate(int(rest[0]), int(rest[1]))
        elif what == "free":
            self._free(int(rest[0]))
        elif what == "place":
            self._lies(int(rest[0]), int(rest[1]))
        elif what == "evict":
            self._evict(int(rest[0]))
        elif what == "restore":
            self._restore(int(rest[0]), int(rest[1]))
        elif what == "replay":
            self._replay(int(rest[0]))
        elif what == "copy":
            self._copy(int(rest[0]), evicted)
        elif what == "hold":
            self._hold(int(rest[0]))
        elif what == "iteration":
            self._begin_iteration()

    def finish(self) -> None:
        self._advance(len(self._trace.operators))
        self._history.end_ns = max(self._now, 1)
        self._history.groups = list(self._numbers)
        if len(self._history.step_ends) < self._trace.steps:
            self._history.step_ends.append(self._history.end_ns)

    def _begin_iteration(self) -> None:
        self._history.clear()
        self._start_over()
        self._dead.clear()
        self._hold(self._held)
        self._evicted.clear()  # results of the iteration before die
        for offset, (size, group, _) in self._blocks.items():
            self._note(offset, size, group)

    def _advance(self, call: int) -> None:
        """Let the operators before a call end."""
        operators, releases = self._trace.operators, self._trace.releases
        for number in range(self._call, min(call, len(operators))):
            self._now += operators[number].cost_ns
            for storage in releases.get(number + 1, ()):
                self._release(storage)
            if number + 1 < len(operators) and operators[number].step < operators[number + 1].step:
                self._history.step_ends.append(self._now)
        self._call = call

    # -- memory ------------------------------------------------------------------------------------

    def _number(self, group: Group) -> int:
        return self._numbers.setdefault(group, len(self._numbers))

    def _groups_of(self, storage: int) -> tuple[int, int]:
        found = self._groups.get(storage)
        if found is None:
            role, name, place, pin = pins.group_of(self._trace, storage)
            found = (self._number((role, name, place, pin)),
                     self._number((EVICTED, name, place, "")))
            self._groups[storage] = found
        return found

    def _note(self, where: int, size: int, group: int) -> None:
        history = self._history
        history.times.append(self._now)
        history.where.append(where)
        history.sizes.append(size)
        history.whose.append(group)

    def _hold(self, size: int) -> None:
        self._held = size
        self._history.held_times.append(self._now)
        self._history.held_sizes.append(size)

    def _allocate(self, offset: int, size: int) -> None:
        self._blocks[offset] = [size, self._kept, -1]
        self._note(offset, size, self._kept)

    def _free(self, offset: int) -> None:
        block = self._blocks.pop(offset, None)
        if block is None:
            return
        if block[2] >= 0 and self._offsets.get(block[2]) == offset:
            del self._offsets[block[2]]
        self._note(offset, 0, block[1])

    def _lies(self, storage: int, offset: int) -> None:
        """A storage that the job has lies in a block from now on."""
        group = self._kept if storage in self._dead else self._groups_of(storage)[0]
        block = self._blocks.get(offset)
        if block is None:
            return
        block[1:] = group, storage
        self._offsets[storage] = offset
        self._note(offset, block[0], group)

    def _evict(self, storage: int) -> None:
        offset = self._offsets.pop(storage, None)
        if offset is not None and offset in self._blocks:
            block = self._blocks[offset]
            block[1:] = self._kept, -1
            self._note(offset, block[0], self._kept)
        if storage in self._dead:
            return
        size = self._trace.storages[storage].bytes
        group, evicted = self._groups_of(storage)
        self._evicted.add(storage)
        self._last_evicted = storage
        self._note(-1 - storage, size, evicted)
        self._lose(group, size, 0, self._call)
        self._history.often.setdefault(group, Counter())[storage] += 1

    def _restore(self, storage: int, offset: int) -> None:
        if storage in self._evicted:
            self._evicted.discard(storage)
            group, evicted = self._groups_of(storage)
            self._note(-1 - storage, 0, evicted)
            spent = self._charges.pop(storage, 0)
            if storage != self._moving:
                self._lose(group, -self._trace.storages[storage].bytes, spent, self._call + 1)
        self._moving = -1
        self._lies(storage, offset)

    def _release(self, storage: int) -> None:
        self._dead.add(storage)
        if storage in self._evicted:
            self._evicted.discard(storage)
            self._note(-1 - storage, 0, self._groups_of(storage)[1])
        offset = self._offsets.pop(storage, None)
        if offset is not None and offset in self._blocks:  # kept, as an evicted value needs it
            block = self._blocks[offset]
            block[1:] = self._kept, -1
            self._note(offset, block[0], self._kept)

    # -- time --------------------------------------------------------------------------------------

    def _lose(self, group: int, size: int, spent: int, call: int) -> None:
        self._history.lose(self._now, group, size, spent,
                           min(call, len(self._trace.operators) - 1))

    def _replay(self, call: int) -> None:
        self._history.replay_times.append(self._now)
        self._history.replay_calls.append(call)
        cost = self._trace.operators[call].cost_ns
        self._now += cost
        self._spent += cost
        # Replays for what does not come back itself are for what comes back next.
        operator = self._trace.operators[call]
        made = (*operator.outputs, *(storage for storage, _ in operator.writes))
        wanted = next((storage for storage in made if storage in self._evicted), None)
        if wanted is not None:
            self._charges[wanted] = self._charges.get(wanted, 0) + self._spent
            self._spent = 0

    def _copy(self, size: int, evicted: int) -> None:
        """Contents are copied: of what was evicted just before, because its block is moved."""
        speed = self._trace.copy_bytes_per_ns
        self._now += int(size / speed) if speed else 0
        if evicted < 0:
            return
        self._moving = evicted
        self._history.take_back(evicted, self._history.loss_groups[-1], size)
