"""Which operators vary from run to run on this device: a part of bench/gpu_check.py.

    python varying.py --keep FILE --seconds N [--smoke]

Every operator that PyTorch's databases call, and larger calls, run several times from the same
state, without Tidepool. What varies is compared with the table that Tidepool has built in
(bindings/torch/calls/varying_operators.cpp): exit status 1 if an operator varies that it lacks.
Where an operator of the table did not vary it may be rid of it on this device, or was not asked
enough.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path

import parts  # isort: skip  it says where the next ones are
import database_runs
import measure

TABLE = measure.ROOT / "bindings" / "torch" / "calls" / "varying_operators.cpp"
DATABASES = ("wide", "operators", "grown", "modules")
# Whole outputs of these are scratch memory, in parts that nobody writes: of attention the numbers
# of the generator, where nothing is dropped.
SCRATCH = {"aten::_ctc_loss", "aten::_cudnn_rnn", "aten::mkldnn_rnn_layer",
           "aten::_efficient_attention_forward", "aten::_flash_attention_forward",
           "aten::_scaled_dot_product_cudnn_attention",
           "aten::_scaled_dot_product_efficient_attention",
           "aten::_scaled_dot_product_flash_attention"}


def built_in() -> set[str]:
    """Return the operators of the built-in table, as the job names them."""
    names = set()
    lists = re.findall(r"constexpr std::array (\w+) = \{(.*?)\};", TABLE.read_text(), re.DOTALL)
    for title, text in lists:
        ending = " (transposed)" if title == "kPerhapsTransposed" else ""
        names |= {f"aten::{name}{ending}" for name in re.findall(r'"(\w+)"', text)}
    return names


def plain(name: str, table: set[str]) -> str:
    """Return the table's name of an operator: one that ends in _ writes in place."""
    bare = name.removesuffix(" (transposed)").removesuffix(" (sparse)")
    for each in (name, bare, bare.removesuffix("_")):
        if each in table:
            return each
    return name


def totals(groups: dict[str, dict]) -> tuple[Counter, Counter, dict[str, set]]:
    """Return calls and variations by operator, and which outputs varied."""
    calls, varied, outputs = Counter(), Counter(), {}
    for group in groups.values():
        calls.update(group.get("calls", {}))
        varied.update(group.get("varied", {}))
        for name, which in group.get("outputs", {}).items():
            outputs.setdefault(name, set()).update(which)
    return calls, varied, outputs


def report(groups: dict[str, dict]) -> list[str]:
    """Say what was found; return the operators that vary and that the table lacks."""
    table = built_in()
    calls, varied, outputs = totals(groups)
    parts.tell("operators run repeatedly", len(calls))
    parts.tell("calls, each run repeatedly", sum(calls.values()))
    parts.tell("cases that are not for this device",
               sum(group.get("not_here", 0) for group in groups.values()))
    parts.tell("operators that vary", len(varied))
    # What reads a tensor without strides is never run again.
    again = [name for name in varied if not name.endswith(" (sparse)")]
    missing = sorted(name for name in again if plain(name, table) not in table | SCRATCH)
    rows = [[name, varied[name], calls[name], " ".join(map(str, sorted(outputs[name]))),
             "yes" if plain(name, table) in table else "NO"] for name in sorted(varied)]
    parts.table("Operators that vary from run to run",
                ["operator", "calls that varied", "of", "which outputs", "in the table"], rows)
    known = Counter()
    for name, count in calls.items():
        known[plain(name, table)] += count
    steady = sorted(table - {plain(name, table) for name in varied})
    parts.table("Operators of the table that did not vary here", ["operator", "calls"],
                [[name, known[name] or "not called"] for name in steady])
    dead = [name for name, group in groups.items() if group.get("wrong")]
    parts.tell("groups at which the process died", ", ".join(dead) or "none")
    return missing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, required=True, help="where it keeps what it has")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--smoke", action="store_true", help="a few operators only")
    options = parser.parse_args()
    groups, status, end = {}, 0, time.monotonic() + options.seconds
    runs = ("--varying", "--runs", "2" if options.smoke else "4")
    for database in DATABASES[:1] if options.smoke else DATABASES:
        out = options.keep.with_name(f"{options.keep.name}.{database}")
        try:
            database_runs.run(database, out, end - time.monotonic(), options.smoke, options=runs)
        except database_runs.TimeIsUp:
            status = parts.UNFINISHED
        if out.exists():
            groups |= {f"{database}: {name}": group
                       for name, group in database_runs.read(out).items()}
        if status:
            break
    missing = report(groups)
    if missing:
        print(f"the table lacks {', '.join(missing)}", file=sys.stderr)
    return 1 if missing and not status else status


if __name__ == "__main__":
    sys.exit(main())
