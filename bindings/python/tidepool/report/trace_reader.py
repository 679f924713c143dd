"""Reads a trace for the report: operators, storages and what each is to the job.

See docs/trace-format.md. What tidepool-replay reads is not checked a second time: a trace goes
through that program first.
"""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path

ROLES = ("parameters", "optimizer state", "gradients", "inputs and buffers", "activations",
         "kept for replays, workspaces", "evicted")
PARAMETERS, OPTIMIZER, GRADIENTS, INPUTS, ACTIVATIONS, KEPT, EVICTED = range(len(ROLES))
_ROLE_OF_KIND = {"parameter": PARAMETERS, "optimizer_state": OPTIMIZER, "gradient": GRADIENTS,
                 "input": INPUTS, "buffer": INPUTS, "other": ACTIVATIONS}
_CUT = "tidepool::cut"
_VERSIONS = (1, 2)  # as remat/trace/trace_names.h has them
_START = b'{"tidepool_trace"'  # of a trace's first line


class TraceError(Exception):
    """The file is no trace that a report can be made of; the message says why."""


@dataclass(slots=True)
class Operator:
    """One call. Events of the trace stand in `Trace.releases` under the call they follow."""

    name: str
    cost_ns: int
    place: int  # -1: not known
    step: int
    reads: tuple[int, ...]
    writes: tuple[tuple[int, str], ...]
    outputs: tuple[int, ...]
    recordable: bool


@dataclass(slots=True)
class Storage:
    """One storage: `maker` is the call that made it, -1 of one from outside."""

    bytes: int
    role: int
    maker: int
    first_use: int = -1  # the first call that reads or writes it
    cut: str = ""  # why its contents may change unseen: "address" or "operand"; "": they may not


@dataclass
class Trace:
    """A trace as the report needs it. Calls are numbered as in tidepool-replay's logs."""

    path: Path
    name: str = ""
    device: str = "cpu"
    copy_bytes_per_ns: float = 0.0
    steps: int = 0
    events: int = 0
    operators: list[Operator] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    places: list[dict] = field(default_factory=list)
    # What dies after so many calls have begun.
    releases: dict[int, list[int]] = field(default_factory=dict)


def read_trace(path: Path) -> Trace:
    """Return a trace.

    Raises:
        TraceError: it cannot be read.
    """
    trace = Trace(path)
    reader = _Reader(trace)
    number = 0
    try:
        for number, line in enumerate(lines_of(path), 1):
            if number == 1 and not line.startswith(_START):
                raise TraceError(f"{path}: is neither a trace (tidepool run --trace) nor a "
                                 "recording (--record)")
            reader.add(json.loads(line))
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: {error}") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "is no line of a trace"
        if isinstance(error, KeyError):
            reason = f"lacks {error}"
        raise TraceError(f"{path}: line {number}: {reason}") from error
    if not trace.operators:
        raise TraceError(f"{path}: " + ("the trace has no operators" if number else "is empty"))
    if not trace.steps:
        trace.steps = 1
    try:
        _find_results(trace)
    except LookupError:
        raise TraceError(f"{path}: it releases a storage that it does not have") from None
    _find_gradients(trace)
    return trace


def lines_of(path: Path):
    """Yield the lines of a trace, which may be compressed."""
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if compressed else path.open("rb") as lines:
        yield from lines


def cut_after_steps(trace: Trace, steps: int, to: Path) -> None:
    """Write the first steps of a trace as a trace of their own."""
    events = 0
    with gzip.open(to, "wb", compresslevel=1) as out:
        for line in itertools.chain(lines_of(trace.path)):
            out.write(line)
            if line.startswith(_START):
                continue
            events += 1
            if line.startswith(b'{"step":%d}' % steps):
                break
        out.write(b'{"end":%d}\n' % events)


class _Reader:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._cut: list[int] = []  # since the operator before

    def add(self, line: dict) -> None:
        trace = self._trace
        if "op" in line:
            self._add_operator(line)
        elif "root" in line:
            kind = line.get("kind", "other")
            role = INPUTS if kind == "other" else _ROLE_OF_KIND[kind]
            trace.storages.append(Storage(line["bytes"], role, -1))
        elif "release" in line:
            trace.releases.setdefault(len(trace.operators), []).append(line["release"])
        elif "role" in line:
            trace.storages[line["role"]].role = _ROLE_OF_KIND[line["kind"]]
        elif "at" in line:
            trace.places.append(line["at"])
        elif "step" in line:
            trace.steps = line["step"]
        elif "tidepool_trace" in line:
            if line["tidepool_trace"] not in _VERSIONS:
                raise ValueError(f"unknown version {line['tidepool_trace']}; expected one of "
                                 f"{', '.join(map(str, _VERSIONS))}")
            trace.name, trace.device = line["name"], line["device"]
            trace.copy_bytes_per_ns = line.get("copy_bytes_per_ns", 0.0)
        elif "end" in line:
            trace.events = line["end"]

    def _add_operator(self, line: dict) -> None:
        trace = self._trace
        number = len(trace.operators)
        writes = tuple((storage, how) for storage, how in line.get("write", ()))
        if line["op"] == _CUT:
            for storage, _ in writes:
                trace.storages[storage].cut = trace.storages[storage].cut or "address"
                self._cut.append(storage)
            return  # no call
        outputs = []
        for storage, size, *_ in line.get("out", ()):
            outputs.append(storage)
            trace.storages.append(Storage(size, ACTIVATIONS, number))
        operator = Operator(line["op"], line["ns"], line.get("place", -1), trace.steps + 1,
                            tuple(line.get("in", ())), writes, tuple(outputs),
                            line.get("recordable", True))
        trace.operators.append(operator)
        operands = (*operator.reads, *(storage for storage, _ in writes))
        for storage in self._cut:  # right before the operator, which may have kept their address
            if not operator.recordable and storage in operands:
                trace.storages[storage].cut = "operand"
        self._cut.clear()
        for storage in operands:
            if trace.storages[storage].first_use < 0:
                trace.storages[storage].first_use = number


def _find_results(trace: Trace) -> None:
    """Tell results apart from parameters: what an operator made, nothing updates, and dies."""
    updated = {storage for operator in trace.operators for storage, how in operator.writes
               if how == "update"}
    for dead in trace.releases.values():
        for number in dead:
            storage = trace.storages[number]
            if storage.role == PARAMETERS and storage.maker >= 0 and number not in updated:
                storage.role = ACTIVATIONS


def _find_gradients(trace: Trace) -> None:
    """Tell gradients apart: what an optimizer reads that was there before it began its step."""
    kept = (PARAMETERS, OPTIMIZER)
    began: dict[int, int] = {}  # by step: the first call that updates what the job keeps
    for number, operator in enumerate(trace.operators):
        updates = [storage for storage, how in operator.writes
                   if how != "side" and trace.storages[storage].role in kept]
        if not updates or not operator.reads:  # a parameter's first contents, for instance
            continue
        first = began.setdefault(operator.step, number)
        sizes = {trace.storages[storage].bytes for storage in updates}
        for storage in operator.reads:
            read = trace.storages[storage]
            if read.role in (ACTIVATIONS, INPUTS) and read.maker < first and read.bytes in sizes:
                read.role = GRADIENTS
