"""Run one of PyTorch's databases with Tidepool evicting at every allocation; compare every bit.

    python database_job.py --database operators --shard 1/2 --out results.jsonl [--full]
    python database_job.py --varying --device cuda --database operators --out results.jsonl
    python database_job.py --evidence --database operators --out results.jsonl

Each case runs twice plainly (does it equal itself?) and once intercepted; with --varying without
Tidepool, each of its operators several times (repeat_runs.py); with --evidence likewise, watched
for what schemas do not say (evidence.py). The output has one line of JSON for each group of cases
that was begun or finished, so that a run goes on where it was stopped: with the same plugin,
PyTorch and sources of these tests, what is finished is skipped, and a group at which the process
died twice (with --evidence, once) is recorded as wrong. With --seconds it ends in time, with
status UNFINISHED.
"""

import argparse
import dataclasses
import hashlib
import importlib
import json
import sys
import time
from pathlib import Path

import without_numpy

DATABASES = {"operators": "operator_cases", "modules": "module_cases",
             "optimizers": "optimizer_cases", "composites": "composite_cases",
             "grown": "grown_cases", "wide": "wide_cases", "generic": "generic_cases",
             "usual": "usual_cases", "broken": "broken_cases"}
UNFINISHED = 3
HERE = Path(__file__).resolve().parent


def fingerprint(options: argparse.Namespace) -> str:
    """Return a hash of what decides the results: plugin, PyTorch, these tests, the selection."""
    import torch

    digest = hashlib.sha256(f"{torch.__version__} {sys.version}".encode())
    plain = options.varying or options.evidence
    for source in [*sorted(HERE.glob("*.py")), *([] if plain else our_files(options))]:
        digest.update(source.read_bytes())
    selection = (options.database, options.full, options.dtypes, options.only, options.chaos,
                 options.device, options.varying, options.evidence)
    digest.update(repr(selection).encode())
    return digest.hexdigest()


def our_files(options: argparse.Namespace) -> list[Path]:
    """Return the files of Tidepool that decide the results."""
    import tidepool
    import torch

    package = Path(tidepool.__file__).parent
    version = "_".join(torch.__version__.split("+")[0].split(".")[:2])
    device = "" if options.device == "cpu" else "cuda_"
    return [package / "lib" / f"libtidepool_torch_{device}{version}.so",
            *sorted(package.glob("*.py"))]


class Results:
    """The lines of an output file."""

    def __init__(self, path: Path, header: str) -> None:
        self.finished: set[str] = set()
        self.died: dict[str, int] = {}
        lines = []
        for text in path.read_text().splitlines() if path.exists() else []:
            if text.endswith("}"):  # else the process ended while it wrote
                lines.append(json.loads(text))
        if not lines or lines[0].get("header") != header:
            lines = [{"header": header}]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        for line in lines[1:]:
            if "begun" in line:
                self.died[line["begun"]] = self.died.get(line["begun"], 0) + 1
            else:
                self.finished.add(line["group"])
        self.file = path.open("a", encoding="utf-8")

    def write(self, line: dict) -> None:
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def run_group(name: str, cases, bench) -> dict:
    """Run a group's cases; return its line."""
    from comparison import Counts

    counts, started = Counts(), time.perf_counter()
    try:
        for case in cases():
            bench.check(case, counts)
    except Exception as error:  # the database cannot make its samples
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        counts.not_here += 1
    return {"group": name, **dataclasses.asdict(counts), **bench.found(),
            "seconds": round(time.perf_counter() - started, 3)}


def make_bench(options: argparse.Namespace):
    """Return what cases are run by."""
    if options.varying:
        from repeat_runs import Repeater

        return Repeater(options.runs)
    if options.evidence:
        import wide_cases
        from evidence import Watcher

        wide_cases.MANY["cpu"] = 1 << 17  # enough for several threads
        return Watcher()
    from comparison import Bench

    return Bench(options.chaos, options.device, options.out.resolve().parent)


def groups(options: argparse.Namespace):
    """Yield the groups of this shard, as the database has them."""
    module = importlib.import_module(DATABASES[options.database])
    shard, shards = map(int, options.shard.split("/"))
    dtypes = options.dtypes.split(",") if options.dtypes else None
    where = [] if options.device == "cpu" else [options.device]
    for number, (name, cases) in enumerate(module.groups(options.full, dtypes, *where)):
        if number % shards != shard - 1:
            continue
        if not options.only or name.split()[0] in options.only.split(","):
            yield name, cases


def run(options: argparse.Namespace) -> int:
    """Go through this shard's groups; return the exit status."""
    import torch

    without_numpy.import_databases()
    end = time.monotonic() + options.seconds
    bench = make_bench(options)
    results = Results(options.out, fingerprint(options))
    for name, cases in groups(options):
        if name in results.finished:
            continue
        if time.monotonic() > end:
            return UNFINISHED
        if results.died.get(name, 0) >= (1 if options.evidence else 2):
            results.write({"group": name, "wrong": ["the process died"]})
            continue
        print(name, file=sys.stderr, flush=True)
        results.write({"begun": name})
        line = run_group(name, cases, bench)
        if options.device == "cuda":
            torch.cuda.synchronize()  # an error of the device ends the process: it would stay
        results.write(line)
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", choices=DATABASES, default="operators")
    parser.add_argument("--shard", default="1/1", help="I/N, from 1/N to N/N")
    parser.add_argument("--full", action="store_true", help="all samples, types and ways")
    parser.add_argument("--chaos", default="alloc", help="alloc, op or offload:SEED")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--varying", action="store_true",
                        help="without Tidepool: which operators vary from run to run?")
    parser.add_argument("--evidence", action="store_true",
                        help="without Tidepool: what do operators do unannounced?")
    parser.add_argument("--runs", type=int, default=3, help="of each operator, with --varying")
    parser.add_argument("--dtypes", help="only these")
    parser.add_argument("--only", help="only these entries of the database")
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="begin nothing after that")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.device == "cuda" and options.database not in ("operators", "modules", "grown",
                                                             "wide"):
        parser.error(f"the {options.database} are for the CPU")
    sys.exit(run(options))


if __name__ == "__main__":
    main()
