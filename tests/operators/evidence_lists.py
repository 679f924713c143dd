"""Make the list of what is known of each operator on the CPU, for the PyTorch that runs this.

    python tests/operators/evidence_lists.py [--results FOLDER] [--only-write]

Runs all databases with evidence.py, one process after another (half an hour), and writes
bindings/torch/evidence/cpu_<major>_<minor>.txt: one overload with a kernel for the CPU a line, with
its verdict, the types that it ran with, and for what is kept, the reasons. What has been run stays
in FOLDER (build/evidence/<version>): it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import torch
from generic_cases import host_overloads, overload_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LISTS = ROOT / "bindings" / "torch" / "evidence"
MOST_DEATHS = 40  # of one process: an operator may crash on operands that are made up
# What runs, in this order: a database, its types, all samples or two.
PARTS = [("operators", "float32", True), ("modules", "float32", False),
         ("optimizers", "float32", True), ("wide", "float32", True),
         ("composites", "float32", True), ("usual", "float32", True),
         ("operators", "bfloat16,float64,complex64,int64,bool,float16", False),
         ("generic", "float32,int64", True)]
METADATA_PREFIXES = ("aten::empty", "aten::new_empty", "aten::_efficientzerotensor")
MADE_UP = "generic"  # counts only for what nothing else reaches


def version() -> str:
    """Return this PyTorch's version as names of files have it, "2_15"."""
    return "_".join(torch.__version__.split(".")[:2])


def is_metadata(name: str) -> bool:
    """Tell whether an overload never looks at contents, as operator_info.cpp does."""
    overload = overload_of(name)
    schema = overload._schema
    writes = any(each.alias_info and each.alias_info.is_write for each in schema.arguments)
    views = any(each.alias_info and not each.alias_info.is_write for each in schema.returns)
    return (views and not writes) or torch.Tag.inplace_view in overload.tags or name.startswith(
        METADATA_PREFIXES)


def stem(name: str) -> str:
    """Return what the forms of an operator have in common: in place, into outputs."""
    return name.split("::")[1].split(".")[0].removesuffix("_").removesuffix("_functional")


def run_parts(folder: Path) -> None:
    """Run what has not run yet; a process that dies goes on behind where it died."""
    environment = dict(os.environ, GLIBC_TUNABLES="glibc.malloc.tcache_count=0",
                       OMP_WAIT_POLICY="PASSIVE")  # threads that spin hinder each other
    for number, (database, types, full) in enumerate(PARTS):
        out = folder / f"{number}-{database}.jsonl"
        command = [sys.executable, str(HERE / "database_job.py"), "--evidence", "--database",
                   database, "--dtypes", types, "--out", str(out), *(["--full"] if full else [])]
        if database == MADE_UP:
            reached, _ = read_results(folder, without=MADE_UP)
            command += ["--only", ",".join(name for name in host_overloads()
                                           if name not in reached and not is_metadata(name))]
        for _ in range(MOST_DEATHS):
            print(*command[:9], flush=True)
            with out.with_suffix(".log").open("a", encoding="utf-8") as log:
                status = subprocess.run(command, env=environment, stdout=log, stderr=log,
                                        check=False).returncode
            if status >= 0:
                break  # else it died
        if status != 0:
            raise SystemExit(f"ended with {status}: see {out.with_suffix('.log')}")


def read_results(folder: Path, without: str = "/") -> tuple[dict[str, set], dict[str, set]]:
    """Return the types that overloads ran with, and what was noticed, from all outputs but some."""
    types, noticed = defaultdict(set), defaultdict(set)
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: MADE_UP in path.name):
        if without in path.name:
            continue
        known = set(types) if MADE_UP in path.name else set()
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text) if text.endswith("}") else {}
            for name, seen in line.get("types", {}).items():
                if name not in known:
                    types[name] |= set(seen)
                    noticed[name] |= set(line["noticed"].get(name, ()))
    return types, noticed


def spread(noticed: dict[str, set]) -> None:
    """Let all forms of an operator vary if one does: they share their kernels."""
    varying = defaultdict(set)
    for name, what in noticed.items():
        varying[stem(name)] |= {each for each in what if each.startswith("varies")}
    for name, what in noticed.items():
        what |= varying[stem(name)]


def lines(types: dict[str, set], noticed: dict[str, set]) -> list[str]:
    """Return the list's lines, one for each overload."""
    spread(noticed)
    found = []
    for name in host_overloads():
        if is_metadata(name):
            found.append(f"{name} metadata")
        elif name not in types:
            found.append(f"{name} not_reached")
        else:
            words = [name, "kept" if noticed[name] else "trusted", ",".join(sorted(types[name])),
                     ",".join(sorted(noticed[name]))]
            found.append(" ".join(words).rstrip())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path,
                        default=ROOT / "build" / "evidence" / version())
    parser.add_argument("--only-write", action="store_true", help="run nothing")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    if not options.only_write:
        run_parts(options.results)
    made = lines(*read_results(options.results))
    LISTS.mkdir(parents=True, exist_ok=True)
    (LISTS / f"cpu_{version()}.txt").write_text("\n".join(made) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
