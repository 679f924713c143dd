"""Take the truth from a real GPU: the program behind `./dev gpu-check`.

Usage: ./dev gpu-check [--stage LETTERS] [--part TEXT] [--resume] [--seconds N] [...]

Needs a GPU and its driver, and nothing from the network. Programs come from a build of this source
tree, or else from build/gpu-package, which `./dev gpu-package` makes on a machine that can build.
Stages:

    a  bits and budget: an MLP, ResNet-50 and a GPT, with half of the memory for activations
    b  prices of the driver's calls: virtual memory by size of handle, allocations, events; whether
       unmapping waits for work in flight; how many mappings the device takes
    c  what an allocation costs beside PyTorch's own allocator, with and without expandable
       segments; what an operator costs; training steps under an ample budget
    d  PyTorch's databases: which operators vary from run to run on this device, beside the table
       that is built in; and all of them with everything evicted
    e  whole networks with everything evicted and under budgets, also with a second tier
    f  the training benchmark (bench/train_bench.py)

First it says what the machine has of what is needed, and in capitals what is too old or too little.
With b and a, in this order, one line each gives the verdict on prices and bits in some two minutes.

Each part of a stage is kept in build/gpu-check as soon as it is done, and bench/results has
gpu-STAGE-DATE.json, and the same in Markdown, as far as it has come. A call ends after --seconds;
--resume goes on behind what is done; a part that went wrong counts as done, unless --part names it.
Exit status: 3 where there is more to do; else 1 where something was wrong, or 0.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import gpu_needs
import gpu_report
import measure
import run

KEPT = measure.ROOT / "build" / "gpu-check"
CALL_SECONDS = 480  # of a call, unless it is told otherwise: less than nine minutes with its end
FEWEST_SECONDS = 30  # with less than that left no part is begun
MOST_SECONDS = 240  # of a part that cannot go on: with less, it begins again in the next call
UNFINISHED = 3


@dataclass(frozen=True)
class Part:
    """A program of a stage: an executable, or a script of bench/gpu, with its arguments.

    One that goes on takes --seconds and --keep FILE: it ends in time with UNFINISHED, and goes on
    behind what the file has. What may fail says nothing about the stage.
    """

    name: str
    command: tuple[str, ...]
    goes_on: bool = False
    may_fail: bool = False


def networks() -> list[Part]:
    """Return the parts of stage e: what trains, and how."""
    vision = ("--amp", "--channels-last")
    found = {name: (name, *vision) for name in ("resnet50", "densenet", "mobilenet", "unet")}
    found |= {f"gpt, {kind} attention": ("gpt", "--amp", "--attention", kind)
              for kind in ("flash", "efficient", "math", "cudnn")}
    found |= {"lstm of cuDNN": ("cudnn_lstm",), "side stream": ("mlp", "--side-stream"),
              "data parallel": ("resnet18", "--data-parallel", "nccl"), "vit": ("vit", "--amp"),
              "fused optimizer": ("translation", "--fused")}
    compiled = {"gpt, compiled": ("gpt", "--amp"), "resnet18, compiled": ("resnet18", "--amp")}
    graphs = {"graph": "resnet18", "graph that draws": "mlp"}
    return [*(Part(name, ("pressure.py", *command)) for name, command in found.items()),
            # Needs a C compiler there, by which Triton makes its launchers.
            *(Part(name, ("pressure.py", "--pressure", "chaos,0.5,offload", *command, "--compile"),
                   may_fail=True)
              for name, command in compiled.items()),
            # What a graph uses stays: there is nothing for a budget to win.
            *(Part(name, ("pressure.py", "--pressure", "chaos,offload", network, "--graph"))
              for name, network in graphs.items())]


def databases() -> list[Part]:
    """Return the parts of stage d."""
    return [
        Part("what varies", ("varying.py",), goes_on=True),
        *(Part(f"{name} under chaos", ("databases.py", name), goes_on=True)
          for name in ("operators", "wide", "modules")),
    ]


def trainings() -> list[Part]:
    """Return the parts of stage f: networks in the order in which one wants to know."""
    names = ("resnet50", "gpt2_medium", "bert_large", "unet", "vit_large", "bilstm", "llama_lora",
             "resnet152", "gpt2_large")
    return [*(Part(name, ("training.py", name), goes_on=True) for name in names),
            Part("largest batches", ("training.py", "resnet50", "--largest"), goes_on=True)]


STAGES: dict[str, tuple[str, list[Part]]] = {
    "a": ("the same bits under a budget", [
        Part(network, ("bits.py", network)) for network in ("mlp", "resnet50", "gpt")]),
    "b": ("prices of the driver's calls", [
        Part("prices", ("tidepool_gpu_prices", "prices")),
        Part("wall", ("tidepool_gpu_prices", "wall")),
        # Last: it may cost the device's context.
        Part("waits", ("tidepool_gpu_prices", "waits"), may_fail=True)]),
    "c": ("what an allocation and an operator cost", [
        Part("pairs, native", ("costs.py", "pairs", "native")),
        Part("pairs, expandable segments", ("costs.py", "pairs", "expandable")),
        Part("operators", ("costs.py", "operators")),
        Part("steps under an ample budget", ("training.py", "gpt2_medium", "--ample"),
             goes_on=True)]),
    "d": ("operators that vary, and all of them under chaos", databases()),
    "e": ("whole networks under chaos and budgets", networks()),
    "f": ("the training benchmark", trainings()),
}


def commit() -> str:
    """Return the commit that the programs were built from."""
    said = measure.CARRIED / "COMMIT"
    return said.read_text().strip() if measure.uses_carried() else run.commit()


def gpu() -> dict:
    """Return name, driver and memory of the first GPU, as far as they are said."""
    fields = "name,driver_version,memory.total"
    if shutil.which("nvidia-smi") is None:
        return {}
    done = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"],
                          capture_output=True, text=True)
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    values = map(str.strip, lines[0].split(",")) if lines else ()
    return dict(zip(fields.split(","), values, strict=True)) if lines else {}


def with_runtime(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which CUDA's runtime library is found where PyTorch has it."""
    folders = [environ["LD_LIBRARY_PATH"]] if environ.get("LD_LIBRARY_PATH") else []
    for entry in sys.path:
        folders += map(str, Path(entry, "nvidia").glob("cu*/lib"))
    return {**environ, "LD_LIBRARY_PATH": ":".join(folders)}


def run_for(command: list[str], seconds: float) -> tuple[int | None, str, str]:
    """Run a command; return its exit status, None if it was stopped, and what it said.

    With it end the processes that it started.
    """
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=measure.with_package(with_runtime(os.environ)),
                               start_new_session=True)
    try:
        output, said = process.communicate(timeout=seconds)
        return process.returncode, output, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, said = process.communicate()
        return None, output, said
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def run_part(part: Part, keep: Path, seconds: float, smoke: bool) -> dict | None:
    """Run a part for so long at most; return what it found, and its error if it had one.

    None: it did not come to its end, and should begin again when there is more time.
    """
    script = Path(__file__).parent / "gpu" / part.command[0]
    start = [sys.executable, str(script)] if script.exists() else [str(
        measure.built(part.command[0]))]
    command = [*start, *part.command[1:], *(["--smoke"] if smoke else [])]
    if part.goes_on:
        command += ["--seconds", str(int(seconds)), "--keep", str(keep)]
    status, output, said = run_for(command, seconds + (FEWEST_SECONDS if part.goes_on else 0))
    error = ""
    if status is None:
        if not part.goes_on and seconds < MOST_SECONDS:
            return None
        error = f"stopped after {seconds:.0f} s"
    elif status not in (0, UNFINISHED):
        error = f"exit status {status}: {said.strip()[-2000:]}"
    return {**gpu_report.read_lines(output), "error": error, "unfinished": status == UNFINISHED}


def wanted(part: Part, texts: list[str]) -> bool:
    """Return whether a part is asked for; without texts all are. A name ends where a text has $."""
    return not texts or any(text in f"{part.name}$" for text in texts)


class Stage:
    """A stage under way: its folder, and its results file."""

    def __init__(self, letter: str, options: argparse.Namespace) -> None:
        self.letter, self.options = letter, options
        self.title, parts = STAGES[letter]
        self.parts = [part for part in parts if wanted(part, options.part)]
        self.folder = options.keep / letter
        if not options.resume and self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        begun = self.folder / "begun"
        if not begun.exists():
            begun.write_text(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
        self.date = begun.read_text()
        self.found: dict[str, dict] = {}

    def run(self, end: float) -> bool:
        """Run the parts that are not done; return whether all are by now."""
        todo = []
        for part in STAGES[self.letter][1]:
            path = self.folder / f"{part.name}.json"
            if path.exists():
                self.found[part.name] = json.loads(path.read_text())
            if part not in self.parts:
                continue
            if not path.exists() or self.found[part.name]["unfinished"]:
                todo.append(part)
            elif self.options.part and self.found[part.name]["error"]:
                todo.append(part)
        for part in todo:
            left = end - time.monotonic()
            if left < FEWEST_SECONDS:
                return False
            print(f"stage {self.letter}: {part.name}", flush=True)
            found = run_part(part, self.folder / f"{part.name}.kept", left, self.options.smoke)
            if found is None:
                return False
            self.found[part.name] = found
            (self.folder / f"{part.name}.json").write_text(json.dumps(found, indent=2) + "\n")
            self.write()
            if found["unfinished"]:
                return False
            if verdict := gpu_report.verdict(self.letter, self.found):
                print(verdict, flush=True)
        return True

    def write(self) -> None:
        """Write what there is to the results file, and beside it as a document."""
        options = self.options
        found = {part.name: self.found[part.name] for part in STAGES[self.letter][1]
                 if part.name in self.found}
        content = {"benchmark": f"gpu-{self.letter}", "date": self.date, "machine": run.machine(),
                   "gpu": gpu(), "commit": commit(), "smoke": options.smoke, "parts": {}}
        options.out.mkdir(parents=True, exist_ok=True)
        date = self.date.replace(":", "").replace("-", "").split("+")[0]
        path = options.out / f"gpu-{self.letter}-{date}.json"
        for name, part in found.items():
            pictures = {plot: f"{path.stem}-{plot}.svg" for plot in part["plots"]}
            for plot, picture in part["plots"].items():
                (options.out / pictures[plot]).write_text(picture)
            content["parts"][name] = {**part, "plots": pictures}
        path.write_text(json.dumps(content, indent=2) + "\n")
        path.with_suffix(".md").write_text(gpu_report.markdown(self.title, content))

    def shown(self) -> str:
        """Return what was found, as a document's parts."""
        return "\n".join(line for part in self.parts if part.name in self.found
                         for line in gpu_report.part_lines(
                             part.name, {**self.found[part.name], "plots": {}}))

    def wrong(self) -> bool:
        return any(self.found[part.name]["error"] for part in self.parts
                   if part.name in self.found and not part.may_fail)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="./dev gpu-check")
    parser.add_argument("--stage", default="".join(STAGES), metavar="LETTERS",
                        help="which stages, as abc or a,b,c (default: all)")
    parser.add_argument("--part", action="append", default=[], metavar="TEXT",
                        help="only parts with this in their names (TEXT$: at their end)")
    parser.add_argument("--resume", action="store_true", help="go on behind what is done")
    parser.add_argument("--seconds", type=int, default=CALL_SECONDS, metavar="N",
                        help=f"end this call after about N seconds (default: {CALL_SECONDS})")
    parser.add_argument("--smoke", action="store_true", help="each part for a moment only")
    parser.add_argument("--out", type=Path, default=measure.ROOT / "bench" / "results",
                        metavar="FOLDER", help="where results go (default: bench/results)")
    parser.add_argument("--keep", type=Path, default=KEPT, metavar="FOLDER",
                        help="where what is done is kept (default: build/gpu-check)")
    options = parser.parse_args(arguments)
    options.stage = options.stage.replace(",", "")
    unknown = [letter for letter in options.stage if letter not in STAGES]
    if unknown:
        parser.error(f"no stage {', '.join(unknown)} (there are: {', '.join(STAGES)})")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    end = time.monotonic() + options.seconds
    print("\n".join(gpu_needs.lines()), flush=True)
    finished, wrong = True, False
    for letter in options.stage:
        stage = Stage(letter, options)
        if not stage.parts:
            continue
        finished &= stage.run(end)
        if stage.found:
            stage.write()
            print(f"# {stage.title}\n{stage.shown()}\n", flush=True)
        wrong |= stage.wrong()
    if not finished:
        print("There is more to do: call again with --resume", flush=True)
    return UNFINISHED if not finished else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
