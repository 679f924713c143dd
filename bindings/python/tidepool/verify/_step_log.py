"""Step logs as the recorder writes them: what a run did, and where two runs first differ.

Logs are read as streams: a long job's do not fit into memory.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import _fingerprint, _json_lines

SUFFIX = ".steps"
RANK_STEM, PROCESS_STEM = "rank_", "process_"  # logs of ranks by their number, and of others
# What logs say of Tidepool's statistics, and what it is called there.
COUNTERS = {"evictions": "evictions", "replays": "operators_replayed", "out_of_memory": "num_ooms",
            "peak_bytes": "reserved_peak_bytes"}
_COMPARED = ("loss", "gradient", "parameter", "buffer", "random")


@dataclass
class Summary:
    """One process of one run, as its log tells it."""

    attached: bool = False
    steps: int = 0
    stopped: bool = False  # by us, after the steps asked for
    # Up to the last step, if the process ended without its exit handlers. None without Tidepool.
    counters: dict[str, int] = field(default_factory=dict)
    finished: bool = False  # the exit handlers ran
    # Under chaos, by operator: how many results it made, and how many of them were evicted and came
    # back.
    coverage: dict[str, dict[str, int]] = field(default_factory=dict)
    unreadable: int = 0  # parameters without a fingerprint in the last step
    # Whose contents came back otherwise than they were evicted (compared under chaos), and how
    # often, up to the end of the first step with any.
    restored_otherwise: dict[str, int] = field(default_factory=dict)
    # Of each step, without the recorder's own time; the first begins with the import of PyTorch.
    wall_ns: list[int] = field(default_factory=list)
    processor_ns: list[int] = field(default_factory=list)
    broken: str = ""  # why the recorder gave up, if it did


@dataclass
class Difference:
    """The first place at which two runs differ.

    `what` says in what: a labelled tensor, or the course of the job. `others` is how many more
    tensors of that step differ.
    """

    step: int
    what: str
    process: str = ""
    others: int = 0
    is_tensor: bool = True


def ended_step(line: bytes) -> int:
    """Return the step that a line says to have ended, or 0."""
    if not line.startswith(b'{"kind":"parameter"'):  # of many lines, few are long
        return 0
    return json.loads(line)["step"]


def summaries(folder: Path) -> dict[str, Summary]:
    """Return the processes of a run that started backward or a step, by the names of their logs."""
    return {path.stem: _summary(path) for path in sorted(folder.glob(f"*{SUFFIX}"))}


def _summary(path: Path) -> Summary:
    summary = Summary()
    for line in _json_lines.read(path):
        kind = line["kind"]
        if kind == "process":
            summary.attached = line["attached"]
        elif kind == "parameter":
            summary.steps = line["step"]
            summary.unreadable = sum(map(_fingerprint.is_unreadable, line["fingerprints"]))
        elif kind == "restored":
            summary.restored_otherwise = summary.restored_otherwise or line["different"]
        elif kind == "time":
            summary.wall_ns.append(line["wall_ns"])
            summary.processor_ns.append(line["processor_ns"])
        elif kind == "broken":
            summary.broken = line["reason"]
        elif kind == "counters":
            summary.counters = _counters_of(line)
        elif kind == "end":
            summary.finished, summary.stopped = True, line["reason"] == "steps"
            summary.counters = _counters_of(line)
            summary.coverage = line.get("coverage", {})
    return summary


def _counters_of(line: dict) -> dict[str, int]:
    return {name: line.get(name, 0) for name in COUNTERS}


def first_difference(expected: Path, got: Path, ended: bool = False) -> Difference | None:
    """Return where the logs in two folders first differ, or None.

    Ranks are compared by their numbers. Of other processes those that start at once take their
    numbers in any order: each is compared with the one that did the same, if there is one.

    Args:
        ended: the second run ended before its time: what it did not come to does not count.
    """
    stems = sorted({path.stem for folder in (expected, got) for path in folder.glob(f"*{SUFFIX}")})

    def compare(left: str, right: str) -> Difference | None:
        return _first_in_process(_log(expected, left), _log(got, right), ended)

    found = {stem: compare(stem, stem) for stem in stems}
    unpaired = [stem for stem in stems if found[stem] and not stem.startswith(RANK_STEM)]
    free = list(unpaired)
    for stem in unpaired if len(unpaired) > 1 else ():
        twin = next((other for other in free if other != stem and not compare(stem, other)), None)
        if twin:
            free.remove(twin)
            found[stem] = None
    for stem, other in zip([stem for stem in unpaired if found[stem]], free, strict=True):
        found[stem] = compare(stem, other)
    if len(stems) > 1:
        for stem, difference in found.items():
            if difference:
                difference.process = stem
    return min(filter(None, found.values()), key=lambda each: each.step, default=None)


def _log(folder: Path, stem: str) -> Path:
    return folder / f"{stem}{SUFFIX}"


def _first_in_process(expected: Path, got: Path, ended: bool) -> Difference | None:
    pair = [_Events(path) for path in (expected, got)]
    first: Difference | None = None
    for left, right in itertools.zip_longest(*pair):
        if left is None and right is None:
            continue
        place = (left or right)["step"]
        if first and place != first.step:
            break
        if left is None or right is None or _identity(left) != _identity(right):
            if first is None and not (ended and right is None):
                first = _other_course(left, right, place)
            break
        labels = pair[0].labels(left)
        places = _differing(left["fingerprints"], right["fingerprints"])
        if places and first is None:
            label = labels[places[0]] if places[0] < len(labels) else f"tensor {places[0]}"
            first = Difference(place, _tensor(left["kind"], label))
            places = places[1:]
        if first:
            first.others += len(places)
    return first


class _Events:
    """The compared lines of a log, with the labels that hold for the line read last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._labels: dict[tuple[str, int], list[str]] = {}

    def __iter__(self) -> Iterator[dict]:
        for line in _json_lines.read(self._path) if self._path.exists() else ():
            if line["kind"] == "labels":
                self._labels[line["of"], line["optimizer"]] = line["labels"]
            elif line["kind"] in _COMPARED:
                yield line

    def labels(self, line: dict) -> list[str]:
        return self._labels.get((line["kind"], line["optimizer"]), [])


def _identity(line: dict) -> tuple:
    return line["kind"], line["step"], line["optimizer"]


def _differing(left: list, right: list) -> list[int]:
    return [place for place, (a, b) in enumerate(itertools.zip_longest(left, right, fillvalue=""))
            if a != b]


def _tensor(kind: str, label: str) -> str:
    return label if kind in ("loss", "random") else f"{kind} {label}"


_COURSES = {"loss": "starts backward", "gradient": "steps an optimizer",
            "parameter": "ends a step", "buffer": "ends a step", "random": "ends a step"}


def _other_course(left: dict | None, right: dict | None, step: int) -> Difference:
    """Describe two runs of which one does something else, or ends, with equal tensors so far."""
    done = [_COURSES[line["kind"]] if line else "has ended" for line in (left, right)]
    if done[0] == done[1]:
        done = [f"{what} (optimizer {line['optimizer']}, step {line['step']})"
                for what, line in zip(done, (left, right), strict=True) if line]
    what = f"the first run {done[0]} where the other {done[1]}"
    return Difference(step, what, is_tensor=False)
