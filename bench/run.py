"""Run benchmarks, print tables, and keep the results: the program behind `./dev bench`.

Usage: ./dev bench [NAME...] [--smoke] [--out FOLDER] [--list]

Results go to bench/results/NAME.md with what is needed to judge them: machine, commit, date,
PyTorch, number of runs, minimum, median and spread. A smoke run keeps nothing unless asked to.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import gpu_report
import measure

PYTHON = ("operator_overhead", "transformer_step", "product_vs_simulator", "cuda_pairs",
          "cuda_patterns", "cuda_operators", "start_up")
REPETITIONS = 9
# What our C++ benchmarks count besides time.
COUNTERS = {"reserved", "refused", "smallest", "smallest_MiB", "price", "windows", "remaps",
            "search_us", "price_ns", "change_ns"}


def native() -> dict[str, Path]:
    """Return the C++ benchmark programs by name."""
    programs = sorted((measure.build_folder() / "bench").glob("tidepool_*_bench"))
    return {path.name.removeprefix("tidepool_"): path for path in programs}


def run_python(name: str, smoke: bool, extra: list[str]) -> list[dict]:
    """Run a benchmark written in Python; return its results."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        command = [sys.executable, str(Path(__file__).with_name(f"{name}.py")), "--json", str(path)]
        subprocess.run([*command, *(["--smoke"] if smoke else []), *extra], check=True)
        return json.loads(path.read_text())


def run_native(program: Path, smoke: bool, extra: list[str]) -> list[dict]:
    """Run a Google Benchmark program; return its results, printed as a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        command = [str(program), f"--benchmark_out={path}", "--benchmark_out_format=json"]
        if smoke:
            command.append("--smoke")
        else:
            command += [f"--benchmark_repetitions={REPETITIONS}",
                        "--benchmark_enable_random_interleaving=true"]
        subprocess.run([*command, *extra], check=True, stdout=subprocess.DEVNULL)
        runs = json.loads(path.read_text())["benchmarks"]
    failed = [f"{run['name']}: {run['error_message']}" for run in runs if "error_message" in run]
    if failed:
        print("\n".join(failed), file=sys.stderr)
        raise subprocess.CalledProcessError(1, command)
    samples: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if run["run_type"] == "iteration":
            name = run["name"].split("/repeats")[0]
            samples.setdefault((name, run["time_unit"]), []).append(run["cpu_time"])
            for counter in COUNTERS & run.keys():
                samples.setdefault((f"{name}: {counter}", ""), []).append(run[counter])
    results = [measure.summarize(name, unit, found)
               for (name, unit), found in sorted(samples.items())]
    print(measure.table(results))
    return [asdict(result) for result in results]


def machine() -> dict:
    """Return what about this machine matters for a time."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    names = [line.split(":", 1)[1].strip() for line in cpuinfo.splitlines()
             if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": names[0] if names else "unknown", "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(memory / (1 << 30), 1), "kernel": os.uname().release.split("-")[0]}


def commit() -> str:
    """Return the commit of this source tree, marked if there are changes on top."""
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(measure.ROOT), *arguments], text=True,
                              capture_output=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    head = git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    return f"{head}+changes" if git("status", "--porcelain", "--untracked-files=no") else head


def document(name: str, smoke: bool, results: list[dict]) -> str:
    """Return the content of a results file."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = None
    here = machine()
    facts = [f"`./dev bench {name}{' --smoke' if smoke else ''}`",
             f"{here['cpu']}, {here['cores']} cores, {here['memory_gib']} GiB, "
             f"Linux {here['kernel']}",
             f"commit {commit()}, build {measure.build_folder().name}",
             f"PyTorch {torch}, Python {sys.version.split()[0]}",
             datetime.datetime.now(datetime.UTC).date().isoformat()]
    return "\n".join([f"# {name}", "", "; ".join(facts) + ".", "",
                      *gpu_report.results_grid(results), ""])


def run_all(names: list[str], smoke: bool, out: Path | None, extra: list[str]) -> Iterator[str]:
    """Run benchmarks and write their results; yield the names of those that failed."""
    programs = native()
    for name in names:
        print(f"\n{name}", flush=True)
        try:
            if name in PYTHON:
                results = run_python(name, smoke, extra)
            else:
                results = run_native(programs[name], smoke, extra)
        except subprocess.CalledProcessError as error:
            print(f"{name} failed with exit status {error.returncode}", file=sys.stderr)
            yield name
            continue
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            path = out / f"{name}.md"
            path.write_text(document(name, smoke, results))
            print(f"-> {os.path.relpath(path)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="./dev bench")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")
    parser.add_argument("--smoke", action="store_true",
                        help="run each for a moment, to see that it works")
    parser.add_argument("--out", type=Path, metavar="FOLDER",
                        help="where results go (default: bench/results)")
    parser.add_argument("--list", action="store_true", help="print the names")
    parsed, extra = parser.parse_known_args()
    known = [*PYTHON, *native()]
    if parsed.list:
        print("\n".join(known))
        return 0
    unknown = [name for name in parsed.names if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)} (there are: {', '.join(known)})", file=sys.stderr)
        return 2
    if extra and len(parsed.names) != 1:
        parser.error(f"{' '.join(extra)} is for one benchmark: name it")
    default = None if parsed.smoke else measure.ROOT / "bench" / "results"
    failed = list(run_all(parsed.names or known, parsed.smoke, parsed.out or default, extra))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
