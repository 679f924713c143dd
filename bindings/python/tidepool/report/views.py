"""What a span of a history shows: memory over time, the address map, what was there, what was lost.

The span is cut into buckets of equal length, of which each shows its fullest moment; of a sequence
of buckets a column of the address map, and a window with a list of what was there, show the fullest
one. So peaks are exact, and what lies between them is left out. Where steps are too many to be told
apart a bucket is longer than a step, so that it does not show one's beginning, and the next one's
end. What was lost is summed up by bins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict

from .history import History
from .trace_reader import EVICTED, ROLES, Trace

BUCKETS, COLUMNS, WINDOWS, BINS = 1200, 300, 100, 300  # at most
_STEPS_APART = 100  # so many steps can be told apart
_STEPS_A_BUCKET = 1.3  # at least, where they cannot
_MOST_ENTRIES = 150_000  # of what was lost, by bin and group
_LEAST_SHARE = 0.001  # of memory: smaller groups are shown together
_PIXELS = 512  # of a column of the address map: neighbours of one group below this are one


def view(trace: Trace, history: History, begin: int, end: int) -> dict:
    """Return what is shown of a span of time, in nanoseconds, ready for JSON."""
    steps = bisect_right(history.step_ends, end) - bisect_right(history.step_ends, begin)
    peaks = _peaks(history, begin, end, _bucket_count(steps))
    return {"begin": begin, "end": end, **_memory(history, peaks),
            **_losses(trace, history, begin, end)}


def _bucket_count(steps: int) -> int:
    if steps <= _STEPS_APART:
        return BUCKETS
    return max(WINDOWS, min(BUCKETS, int(steps / _STEPS_A_BUCKET)))


class _State:
    """Memory at a moment, as changes are applied one after the other."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.roles = [group[0] for group in history.groups]
        self.there: dict[int, tuple[int, int]] = {}  # by place: bytes and group
        self.resident = 0  # bytes, without what is evicted
        self.next = 0

    def apply(self) -> None:
        """Apply the next change."""
        k, history = self.next, self._history
        self.next += 1
        place, size = history.where[k], history.sizes[k]
        before = self.there.get(place)
        if place >= 0:
            self.resident += size - (before[0] if before else 0)
        if size:
            self.there[place] = (size, history.whose[k])
        else:
            self.there.pop(place, None)


def _peaks(history: History, begin: int, end: int, buckets: int) -> list[tuple[int, int, int]]:
    """Return for each bucket its fullest moment: bytes, time, and how many changes are applied."""
    state = _State(history)
    times, count = history.times, len(history.times)
    first = bisect_left(times, begin)
    while state.next < first:
        state.apply()
    found = []
    now = begin
    for bucket in range(buckets):
        until = begin + (end - begin) * (bucket + 1) // buckets
        best = (state.resident, now, state.next)
        last = bucket == buckets - 1
        while state.next < count and (times[state.next] < until
                                      or last and times[state.next] == until):
            at = times[state.next]
            state.apply()
            if state.resident > best[0]:
                best = (state.resident, at, state.next)
        found.append(best)
        now = until
    return found


def _memory(history: History, peaks: list[tuple[int, int, int]]) -> dict:
    """Return memory by role, columns of the address map, and lists of what was there."""
    columns = _fullest(peaks, COLUMNS)
    windows = _fullest(peaks, WINDOWS)
    state = _State(history)
    highest = max((where + size for where, size in zip(history.where, history.sizes, strict=True)),
                  default=1)
    roles: list[list[int]] = [[] for _ in ROLES]
    found: dict = {"times": [time for _, time, _ in peaks], "roles": roles, "columns": [],
                   "windows": [], "highest": highest, "held": _held(history, peaks)}
    for bucket, (_, time, changes) in enumerate(peaks):
        while state.next < changes:
            state.apply()
        sums = Counter[int]()
        for size, group in state.there.values():
            sums[group] += size
        by_role = [0] * len(ROLES)
        for group, size in sums.items():
            by_role[state.roles[group]] += size
        for role, size in enumerate(by_role):
            roles[role].append(size)
        if bucket in columns:
            found["columns"].append([time, _runs(state, max(highest // _PIXELS, 1))])
        if bucket in windows:
            found["windows"].append([time, _holders(state, sums)])
    return found


def _held(history: History, peaks: list[tuple[int, int, int]]) -> list[int]:
    """Return what is held from the device at each moment."""
    last = [bisect_right(history.held_times, time) - 1 for _, time, _ in peaks]
    return [history.held_sizes[max(k, 0)] if history.held_sizes else 0 for k in last]


def _fullest(peaks: list[tuple[int, int, int]], parts: int) -> set[int]:
    """Return the fullest bucket of each of so many parts, or of each bucket if those are fewer."""
    count = len(peaks)
    parts = min(parts, count)
    return {max(range(k * count // parts, (k + 1) * count // parts),
                key=lambda bucket: peaks[bucket][0]) for k in range(parts)}


def _runs(state: _State, pixel: int) -> list[int]:
    """Return the blocks at a moment: distance from the end of the one before, bytes, group, ..."""
    runs: list[list[int]] = []
    for where in sorted(where for where in state.there if where >= 0):
        size, group = state.there[where]
        if runs and runs[-1][2] == group and where - (runs[-1][0] + runs[-1][1]) < pixel \
                and size < pixel:
            runs[-1][1] = where + size - runs[-1][0]
        else:
            runs.append([where, size, group])
    flat: list[int] = []
    end = 0
    for where, size, group in runs:
        flat += (where - end, size, group)
        end = where + size
    return flat


def _holders(state: _State, sums: Counter[int]) -> list[int]:
    """Return group, bytes and number of places, for each group that is not small."""
    counts = Counter(group for _, group in state.there.values())
    least = _LEAST_SHARE * sum(sums.values())
    flat: list[int] = []
    small: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for group, size in sums.most_common():
        if size >= least:
            flat += (group, size, counts[group])
        else:
            entry = small[-1 - state.roles[group]]
            entry[0] += size
            entry[1] += counts[group]
    for stands_for, (size, count) in small.items():
        flat += (stands_for, size, count)
    return flat


# -- what was lost ---------------------------------------------------------------------------------


def _losses(trace: Trace, history: History, begin: int, end: int) -> dict:
    """Return evictions and replays by bin: how many, how much, and what they cost."""
    span = slice(bisect_left(history.loss_times, begin), bisect_right(history.loss_times, end))
    groups = len(set(history.loss_groups[span])) or 1
    bins = max(20, min(BINS, _MOST_ENTRIES // groups))
    length = max(end - begin, 1)
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for k in range(span.start, span.stop):
        slot = min((history.loss_times[k] - begin) * bins // length, bins - 1)
        entry = sums[slot, history.loss_groups[k]]
        size = history.loss_bytes[k]
        if size > 0:
            entry[0] += 1
            entry[1] += size
        else:
            entry[2] += 1
            entry[3] += history.loss_ns[k]
    flat: list[int] = []
    for (slot, group), entry in sorted(sums.items()):
        flat += (slot, group, *entry)
    return {"bins": bins, "losses": flat, "replays": _replays(trace, history, begin, end, bins)}


def _replays(trace: Trace, history: History, begin: int, end: int, bins: int) -> list[int]:
    """Return, for each bin that has any, its number, how many replays and how long they took."""
    span = slice(bisect_left(history.replay_times, begin), bisect_right(history.replay_times, end))
    length = max(end - begin, 1)
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for time, call in zip(history.replay_times[span], history.replay_calls[span], strict=True):
        entry = sums[min((time - begin) * bins // length, bins - 1)]
        entry[0] += 1
        entry[1] += trace.operators[call].cost_ns
    return [number for slot, entry in sorted(sums.items()) for number in (slot, *entry)]


def details(trace: Trace, history: History) -> list[list]:
    """Return, for each group that was evicted, what explains it.

    Its number, how many of its storages were evicted, the greatest number of evictions of one, the
    bytes of one, what it costs to make one, and who needed them back: [operator, place, times].
    """
    causes: dict[int, Counter] = defaultdict(Counter)
    for group, size, call in zip(history.loss_groups, history.loss_bytes, history.loss_calls,
                                 strict=True):
        if size < 0:
            operator = trace.operators[call]
            causes[group][operator.name, operator.place] += 1
    found = []
    for group, often in history.often.items():
        (storage, most), = often.most_common(1)
        maker = trace.storages[storage].maker
        cost = trace.operators[maker].cost_ns if maker >= 0 else 0
        found.append([group, len(often), most, trace.storages[storage].bytes, cost,
                      [[name, place, times] for (name, place), times
                       in causes[group].most_common(4)]])
    assert all(history.groups[group][0] != EVICTED for group, *_ in found)
    return found


def step_to_show(history: History) -> int | None:
    """Return the step with the most evictions, counted from 0; None if there are too few."""
    ends = history.step_ends
    if len(ends) < 3:
        return None
    counts = Counter(bisect_left(ends, time) for time, size
                     in zip(history.loss_times, history.loss_bytes, strict=True) if size > 0)
    counts = Counter({step: count for step, count in counts.items() if 0 < step < len(ends)})
    return counts.most_common(1)[0][0] if counts else len(ends) // 2
