"""Would results pay that wait in fewer bytes? A study by simulation, after Gist and MONeT.

Usage: bench/kept_forms.py TRACE... [--shares R,R...] [--jobs N] [-o FILE.csv]

Between the two uses that lie farthest apart, a result may wait in another form with the same bits:

  bits      a mask of two values, one bit an element: noise of dropout, comparisons
  narrow    the indices of a pooling, one byte (its place in the window) for eight; those of topk
            and sort two
  nonzeros  what ReLU leaves: the elements that are not zero, and a bit map of where they are
  sign      what ReLU leaves, where only ReLU's own gradient is still to read it: one bit an element

A trace is rewritten for it: an operator packs the result after the first of these uses, and
another unpacks it before the second; both cost what they move, at the bandwidth of the device. The
product's search then plans both traces under the same budget, and overheads are compared: all that
ran, divided by the operators of the unchanged trace. A form is tried for all results that have it,
and for those only where packing and unpacking cost less for a byte saved than making the result
again does for a byte (`cheap`).

Budgets are `fixed + share * (peak - fixed)`; fixed is what the step leaves behind.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import policy_bench

COMPARISONS = tuple(f"aten::{name}." for name in ("eq", "ne", "gt", "ge", "lt", "le"))
RELUS = ("aten::relu", "aten::relu_", "aten::clamp_min_")
KEEP_FORM = ("aten::div_.Scalar",)  # two values stay two values: dropout's noise is scaled so
RELU_GRADIENT = "aten::threshold_backward"
FORMS = ("bits", "narrow", "nonzeros", "sign")
NONZERO_SHARE = 0.5  # of what ReLU leaves, where its input is symmetric about zero
# Bytes of an element, the device's bandwidth in bytes/ns, and what an operator costs beside. The
# GPU's are those of its traces; a core of a CPU is taken to do a third of what its cheapest
# operators reach in the traces (25 GB/s in `div_`).
DEVICES = {"cuda": (2, 2400.0, 3000.0), "cpu": (4, 8.0, 3000.0)}

COLUMNS = ("trace", "share", "packed", "results", "peak_bytes", "bytes_at_peak", "saved_at_peak",
           "cost_share", "overhead")


@dataclass
class Stored:
    """A storage of a trace, and what happens to it."""

    bytes: int
    made: int | None = None  # the operator; None: a root
    cost_ns: int = 0  # of all that write it
    last_write: int = -1
    uses: list[int] = field(default_factory=list)
    released: bool = False
    forms: dict[str, int] = field(default_factory=dict)  # with the bytes of each


@dataclass(frozen=True)
class Packed:
    """A result that waits in another form between two operators."""

    storage: int
    form: str
    begin: int
    end: int
    bytes: int
    packed_bytes: int
    cost_ns: int  # each way
    remake_ns: int

    @property
    def cheap(self) -> bool:
        """Whether a byte saved costs less than a byte that is made again."""
        return 2 * self.cost_ns / (self.bytes - self.packed_bytes) < self.remake_ns / self.bytes


class Trace:
    """A trace's lines, and what is known of its storages."""

    def __init__(self, path: Path) -> None:
        self.lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        self.element, self._bandwidth, self._operator_ns = DEVICES[self.lines[0]["device"]]
        self.stored: dict[int, Stored] = {}
        self.ops = [line for line in self.lines if "op" in line]
        self._number = -1
        for line in self.lines:
            self._see(line)
        self.peak, self.fixed = self._peak()

    @property
    def compute_ns(self) -> int:
        return sum(op["ns"] for op in self.ops)

    def _see(self, line: dict) -> None:
        if "root" in line:
            self.stored[line["root"]] = Stored(line["bytes"])
        elif "release" in line:
            self.stored[line["release"]].released = True
        elif "op" in line:
            self._number += 1
            self._see_operator(line)

    def _see_operator(self, op: dict) -> None:
        at, name = self._number, op["op"]
        for number, size in op.get("out", []):
            self.stored[number] = Stored(size, at, op["ns"], at)
        for number, access in op.get("write", []):
            written = self.stored[number]
            written.uses.append(at)
            written.last_write = at
            written.cost_ns += op["ns"]
            if access != "side" and name not in KEEP_FORM:
                written.forms = {}
        for number in op.get("in", []):
            self.stored[number].uses.append(at)
        if op.get("recordable", True):
            self._note_forms(name, op)

    def _note_forms(self, name: str, op: dict) -> None:
        outs = [self.stored[number] for number, _ in op.get("out", [])]
        written = [self.stored[number] for number, _ in op.get("write", [])]
        if name == "aten::native_dropout":
            outs[1].forms["bits"] = -(-outs[1].bytes // 8)
        elif name == "aten::bernoulli_.float":
            for each in outs + written:
                each.forms["bits"] = -(-each.bytes // (8 * self.element))
        elif name.startswith(COMPARISONS) and outs:
            outs[0].forms["bits"] = -(-outs[0].bytes // 8)
        elif name == "aten::max_pool2d_with_indices":
            outs[1].forms["narrow"] = -(-outs[1].bytes // 8)
        elif name in ("aten::topk", "aten::sort") and len(outs) > 1:
            outs[1].forms["narrow"] = -(-outs[1].bytes // 4)
        elif name in RELUS:
            for each in outs + written:
                elements = each.bytes // self.element
                each.forms["nonzeros"] = int(NONZERO_SHARE * each.bytes) + elements // 8
                each.forms["sign"] = -(-elements // 8)

    def _peak(self) -> tuple[int, int]:
        """Return the most bytes there are at once, and those at the end."""
        held = peak = 0
        for line in self.lines:
            if "root" in line:
                held += line["bytes"]
            elif "release" in line:
                held -= self.stored[line["release"]].bytes
            elif "op" in line:
                held += sum(size for _, size in line.get("out", []))
                peak = max(peak, held + line.get("workspace", 0))
        return peak, held

    def _longest_gap(self, stored: Stored) -> tuple[int, int] | None:
        moments = sorted({m for m in (stored.made, *stored.uses) if m >= stored.last_write})
        gaps = [(end - begin, begin, end)
                for begin, end in zip(moments, moments[1:], strict=False) if end > begin + 1]
        return max(gaps)[1:] if gaps else None

    def candidates(self) -> Iterator[Packed]:
        """Yield what could be packed, in each form that it has."""
        for number, stored in self.stored.items():
            gap = self._longest_gap(stored) if stored.forms and stored.released else None
            if gap is None:
                continue
            later = {self.ops[use]["op"] for use in stored.uses if use >= gap[1]}
            for form, size in stored.forms.items():
                if form == "sign" and later != {RELU_GRADIENT}:
                    continue
                moved = stored.bytes + size
                yield Packed(number, form, *gap, stored.bytes, size,
                             int(self._operator_ns + moved / self._bandwidth), stored.cost_ns)

    def at_peak(self) -> set[int]:
        """Return the storages that are there at the peak."""
        held: set[int] = set()
        best: tuple[int, set[int]] = (0, set())
        total = 0
        for line in self.lines:
            if "release" in line:
                held.discard(line["release"])
                total -= self.stored[line["release"]].bytes
            for number in [line["root"]] if "root" in line else [
                    number for number, _ in line.get("out", [])]:
                held.add(number)
                total += self.stored[number].bytes
            if "op" in line and total + line.get("workspace", 0) > best[0]:
                best = (total + line.get("workspace", 0), set(held))
        return best[1]

    def packed(self, chosen: Iterable[Packed], path: Path) -> None:
        """Write the trace in which these wait packed."""
        path.write_bytes(gzip.compress("".join(
            json.dumps(line, separators=(",", ":")) + "\n"
            for line in _rewritten(self.lines, {each.storage: each for each in chosen})
        ).encode(), 1))


def _rewritten(lines: list[dict], chosen: Mapping[int, Packed]) -> list[dict]:
    begins: dict[int, list[Packed]] = {}
    ends: dict[int, list[Packed]] = {}
    for each in chosen.values():
        begins.setdefault(each.begin, []).append(each)
        ends.setdefault(each.end, []).append(each)
    now: dict[int, int] = {}  # the storage that has these contents
    forms: dict[int, int] = {}  # what it is made of, by the storage that was packed
    result: list[dict] = []
    count, number = 0, -1

    def new() -> int:
        nonlocal count
        count += 1
        return count - 1

    def add(name: str, read: int, size: int, cost_ns: int) -> int:
        made = new()
        result.append({"op": f"tidepool::{name}", "ns": cost_ns, "in": [read],
                       "out": [[made, size]]})
        return made

    for line in lines[:-1]:
        line = dict(line)
        if "op" in line:
            number += 1
            for each in ends.get(number, []):
                now[each.storage] = add("unpack", forms[each.storage], each.bytes, each.cost_ns)
            line["in"] = [now[k] for k in line.get("in", [])]
            line["write"] = [[now[k], access] for k, access in line.get("write", [])]
            made = []
            for storage, size in line.get("out", []):
                now[storage] = new()
                made.append([now[storage], size])
            line["out"] = made
        elif "root" in line:
            now[line["root"]] = new()
            line["root"] = now[line["root"]]
        for key in ("release", "role", "use"):
            if key in line:
                if key == "release" and line[key] in forms:
                    result.append({"release": forms[line[key]]})
                line[key] = now[line[key]]
        result.append(line)
        if "op" in line:
            for each in begins.get(number, []):
                forms[each.storage] = add("pack", now[each.storage], each.packed_bytes,
                                          each.cost_ns)
                result.append({"release": now[each.storage]})
    return [*result, {"end": len(result) - 1}]


def overhead(path: Path, budget: int, base_ns: int) -> float | None:
    """Return what the search's plan takes, as a multiple of base_ns; None: it does not run."""
    found = policy_bench.ask(path, "--policy", "default", "--oracle", "--iterations", "2",
                             "--budget", str(budget))
    return found["compute_ns"] / base_ns if found["status"] == "ok" else None


def sets_of(candidates: list[Packed]) -> dict[str, list[Packed]]:
    """Return what is tried, by name: no result twice."""
    tried: dict[str, list[Packed]] = {"": []}
    for form in FORMS:
        of_form = [each for each in candidates if each.form == form]
        cheap = [each for each in of_form if each.cheap]
        if of_form:
            tried[form] = of_form
        if cheap and len(cheap) < len(of_form):
            tried[f"{form}, cheap"] = cheap
    best = {each.storage: each for each in sorted(candidates, key=lambda each: -each.packed_bytes)
            if each.cheap}
    if len({each.form for each in best.values()}) > 1:
        tried["all that is cheap"] = list(best.values())
    return tried


def study(path: Path, shares: list[float], jobs: int) -> Iterator[dict]:
    """Yield a row for each budget and set."""
    trace = Trace(path)
    name = trace.lines[0]["name"]
    candidates = list(trace.candidates())
    at_peak = trace.at_peak()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        rows = []
        for number, (tried, chosen) in enumerate(sets_of(candidates).items()):
            file = Path(folder) / f"{number}.jsonl.gz"
            trace.packed(chosen, file)
            shared = [each for each in chosen if each.storage in at_peak]
            for share in shares:
                budget = int(trace.fixed + share * (trace.peak - trace.fixed))
                rows.append(({
                    "trace": name, "share": share, "packed": tried, "results": len(chosen),
                    "peak_bytes": trace.peak, "bytes_at_peak": sum(e.bytes for e in shared),
                    "saved_at_peak": sum(e.bytes - e.packed_bytes for e in shared),
                    "cost_share": sum(2 * e.cost_ns for e in chosen) / trace.compute_ns},
                    pool.submit(overhead, file, budget, trace.compute_ns)))
        for row, found in rows:
            yield row | {"overhead": found.result()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", type=Path, nargs="+", metavar="TRACE")
    parser.add_argument("--shares", type=policy_bench.parse_ratios, default=[0.7, 0.5, 0.3])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    parsed = parser.parse_args()
    out = parsed.output.open("w") if parsed.output else sys.stdout
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    for path in parsed.traces:
        for row in study(path, parsed.shares, parsed.jobs):
            writer.writerow({key: f"{value:.4f}" if isinstance(value, float) else value
                             for key, value in row.items()})
            out.flush()


if __name__ == "__main__":
    main()
