"""Take the truth from a real GPU: the program behind `./dev gpu-check`.

Usage: ./dev gpu-check [--stage LETTERS] [--resume] [--smoke] [--out FOLDER]

Needs a GPU and its driver, and nothing from the network. Programs come from build/gpu-package,
which `./dev gpu-package` makes on a machine that can build, or else from a build on this one.
Stages:

    a  bits and budget: an MLP, ResNet-50 and a GPT, with half of the memory for activations
    b  prices of the driver's calls: virtual memory by size of handle, allocations, events; whether
       unmapping waits for work in flight; how many mappings the device takes

Each part of a stage is kept in build/gpu-check as soon as it is done; --resume goes on behind
those. At the end, bench/results gets gpu-STAGE-DATE.json and the same as a table in Markdown.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import measure
import run

BUILD = measure.ROOT / "build"
KEPT = BUILD / "gpu-check"
PROGRAMS = (BUILD / "gpu-package" / "bin", BUILD / "release" / "bench", BUILD / "dev" / "bench")
PART_SECONDS = 500
# stage -> (title, [(part, program, or script of bench/gpu, and its arguments)])
STAGES = {
    "a": ("the same bits under a budget", [
        (network, ["bits.py", network]) for network in ("mlp", "resnet50", "gpt")]),
    "b": ("prices of the driver's calls", [
        ("prices", ["tidepool_gpu_prices", "prices"]),
        ("wall", ["tidepool_gpu_prices", "wall"]),
        ("waits", ["tidepool_gpu_prices", "waits"]),  # last: it may cost the device's context
    ]),
}


def program(name: str) -> Path:
    """Return the path of a program.

    Raises:
        SystemExit: it is nowhere.
    """
    for folder in PROGRAMS:
        if (folder / name).exists():
            return folder / name
    sys.exit(f"{name} is not built: run ./dev gpu-package where there is a compiler")


def commit() -> str:
    """Return the commit that the programs were built from."""
    said = BUILD / "gpu-package" / "COMMIT"
    return said.read_text().strip() if said.exists() else run.commit()


def gpu() -> dict:
    """Return name, driver and memory of the first GPU, as far as they are said."""
    fields = "name,driver_version,memory.total"
    if shutil.which("nvidia-smi") is None:
        return {}
    done = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"],
                          capture_output=True, text=True)
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return dict(zip(fields.split(","), map(str.strip, lines[0].split(",")))) if lines else {}


def with_runtime(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which CUDA's runtime library is found where PyTorch has it."""
    folders = [environ["LD_LIBRARY_PATH"]] if environ.get("LD_LIBRARY_PATH") else []
    for entry in sys.path:
        folders += map(str, Path(entry, "nvidia").glob("cu*/lib"))
    return {**environ, "LD_LIBRARY_PATH": ":".join(folders)}


def run_part(command: list[str], smoke: bool) -> dict:
    """Run one part; return its results and facts, and its error if it had one."""
    script = Path(__file__).parent / "gpu" / command[0]
    start = [sys.executable, str(script)] if script.exists() else [str(program(command[0]))]
    command = [*start, *command[1:], *(["--smoke"] if smoke else [])]
    results, facts, error = [], {}, ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PART_SECONDS,
                              env=with_runtime(os.environ))
        output = done.stdout
        if done.returncode != 0:
            error = f"exit status {done.returncode}: {done.stderr.strip()[-2000:]}"
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode()
        error = f"stopped after {PART_SECONDS} s"
    for line in output.splitlines():
        try:
            said = json.loads(line)
        except json.JSONDecodeError:
            continue  # cut off in the middle
        if "fact" in said:
            facts[said["fact"]] = said["value"]
        else:
            results.append(asdict(measure.summarize(said["name"], said["unit"], said["samples"])))
    return {"results": results, "facts": facts, "error": error}


def run_stage(letter: str, resume: bool, smoke: bool) -> dict:
    """Run a stage; return its parts by name."""
    folder = KEPT / letter
    if not resume and folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {}
    for name, command in STAGES[letter][1]:
        path = folder / f"{name}.json"
        if path.exists():
            parts[name] = json.loads(path.read_text())
            continue
        print(f"stage {letter}: {name}", flush=True)
        parts[name] = run_part(command, smoke)
        path.write_text(json.dumps(parts[name], indent=2) + "\n")
    return parts


def markdown(title: str, content: dict) -> str:
    """Return the results as a document."""
    device = ", ".join(content["gpu"].values()) or "unknown GPU"
    lines = [f"# {title[0].upper()}{title[1:]}", "",
             f"{device}; commit {content['commit']}, {content['date']}."]
    for name, part in content["parts"].items():
        lines += ["", f"## {name}", ""]
        if part["results"]:
            lines += ["| | minimum | median | 10 % | 90 % | unit | runs |",
                      "| --- | ---: | ---: | ---: | ---: | --- | ---: |"]
        for r in part["results"]:
            figures = (r["minimum"], r["median"], *r["spread"])
            cells = " | ".join(f"{figure:.2f}" for figure in figures)
            lines.append(f"| {r['name']} | {cells} | {r['unit']} | {r['runs']} |")
        lines += [f"- {fact}: {value:g}" for fact, value in part["facts"].items()]
        lines += [f"- ended: {part['error']}"] if part["error"] else []
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="./dev gpu-check")
    parser.add_argument("--stage", default="".join(STAGES), metavar="LETTERS",
                        help="which stages (default: all)")
    parser.add_argument("--resume", action="store_true", help="go on behind what is done")
    parser.add_argument("--smoke", action="store_true", help="each part for a moment only")
    parser.add_argument("--out", type=Path, default=measure.ROOT / "bench" / "results",
                        metavar="FOLDER", help="where results go (default: bench/results)")
    options = parser.parse_args()
    unknown = [letter for letter in options.stage if letter not in STAGES]
    if unknown:
        parser.error(f"no stage {', '.join(unknown)} (there are: {', '.join(STAGES)})")
    failed = False
    for letter in options.stage:
        title, _ = STAGES[letter]
        parts = run_stage(letter, options.resume, options.smoke)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        content = {"benchmark": f"gpu-{letter}", "date": now, "machine": run.machine(),
                   "gpu": gpu(), "commit": commit(), "smoke": options.smoke, "parts": parts}
        options.out.mkdir(parents=True, exist_ok=True)
        date = content["date"].replace(":", "").replace("-", "").split("+")[0]
        path = options.out / f"gpu-{letter}-{date}.json"
        path.write_text(json.dumps(content, indent=2) + "\n")
        path.with_suffix(".md").write_text(markdown(title, content))
        print(markdown(title, content))
        failed |= any(part["error"] for name, part in parts.items() if name != "waits")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
