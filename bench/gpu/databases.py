"""PyTorch's databases on a CUDA device with everything evicted: a part of bench/gpu_check.py.

    python databases.py operators|wide|modules --keep FILE --seconds N [--smoke]

Each case runs plainly, plainly again, and with Tidepool evicting at every allocation. Exit status 1
if bits differ of a case that equals itself, unless one of its operators varies on this device (as
varying.py found).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import parts  # isort: skip  it says where the next ones are

import database_runs

TOTALS = ("cases", "evicting", "replaying", "evictions", "not_here", "unequal_to_itself")


def varying_groups(keep: Path, database: str) -> dict[str, list[str]]:
    """Return, by group, the operators that varied when they were run repeatedly."""
    path = keep.with_name(f"what varies.kept.{database}")
    groups = database_runs.read(path) if path.exists() else {}
    return {name: sorted(group["varied"]) for name, group in groups.items()
            if group.get("varied")}


def report(groups: dict[str, dict], varying: dict[str, list[str]]) -> int:
    """Say what was found; return how many groups are wrong for no known reason."""
    for key in TOTALS:
        parts.tell(key.replace("_", " "), sum(group.get(key, 0) for group in groups.values()))
    wrong = {name: group["wrong"] for name, group in groups.items() if group["wrong"]}
    unexplained = [name for name in wrong if name not in varying]
    parts.tell("groups that differ", len(wrong))
    parts.tell("groups that differ, though no operator of theirs varies", len(unexplained))
    parts.table("Groups that differ", ["group", "what", "operators of it that vary"],
                [[name, "; ".join(what[:3]).replace("|", "/"),
                  ", ".join(varying.get(name, [])) or "none"] for name, what in wrong.items()])
    return len(unexplained)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("database", choices=("operators", "wide", "modules"))
    parser.add_argument("--keep", type=Path, required=True, help="where it keeps what it has")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--smoke", action="store_true", help="a few operators only")
    options = parser.parse_args()
    status = 0
    try:
        database_runs.run(options.database, options.keep, options.seconds, options.smoke,
                          database_runs.UNDER_CHAOS)
    except database_runs.TimeIsUp:
        status = parts.UNFINISHED
    groups = database_runs.read(options.keep) if options.keep.exists() else {}
    wrong = report(groups, varying_groups(options.keep, options.database))
    if wrong:
        print(f"{wrong} groups differ", file=sys.stderr)
    return 1 if wrong and not status else status


if __name__ == "__main__":
    sys.exit(main())
