"""Trains whole networks under budgets, and by PyTorch's own ways to save memory, and compares.

Usage: ./dev train-bench [NETWORK...] [--device cuda] [--scale small] [--ways W,W...] [...]

Each way is a process of its own (bench/jobs/train_network.py); ways take turns, each turn in
another order. What a process said is kept in FOLDER/points.jsonl at once: a run that was broken off
goes on where it stopped, and points of another commit are not mixed in. FOLDER then has summary.md,
and a plot for each network. --largest looks for the largest batch under caps instead.

    plain         PyTorch as it is                  checkpoint   torch.utils.checkpoint per block
    expandable    with expandable segments          selective    the same, but keeps products
    ample         Tidepool with all the memory      save_on_cpu  torch.autograd.graph's
    r=0.5, ...    Tidepool: fixed bytes and half    compile      torch.compile, half of the
                  of the rest                                    activations (on CUDA)
    as-checkpoint Tidepool under what checkpoint reserves
    unplanned:r=0.5, unplanned:as-checkpoint, ... (only where asked for)
                  the same without plans; see --wait-for-plans
    host:r=0.5, ...  the same with the host's memory as a second tier (only where asked for, on
                  CUDA)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import measure
import run
import train_report
from environments import clean_environment

JOB = measure.ROOT / "bench" / "jobs" / "train_network.py"
NETWORKS = ("resnet50", "gpt2_medium", "bert_large", "unet", "vit_large", "bilstm", "llama_lora",
            "resnet152", "gpt2_large")
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
STOCK = ("plain", "expandable", "checkpoint", "selective", "save_on_cpu", "compile")
WAYS = ("plain", "ample", "checkpoint", "r=0.5", "as-checkpoint", "selective", "expandable",
        *(f"r={share:g}" for share in SHARES if share != 0.5), "save_on_cpu", "compile")
UNPLANNED, HOST = "unplanned:", "host:"
HOST_MEMORY = "host:48GiB"
ONLY_CUDA = ("expandable", "compile")  # compiling for a CPU needs a compiler, and shows nothing
LARGEST_WAYS = ("plain", "tidepool", "checkpoint", "expandable")
CAPS_MIB = (16384, 10240, 24576)  # the one with a goal first
ALL = {"cpu": "80%", "cuda": "100%"}
PIECE_SECONDS = 240


class TimeIsUp(Exception):
    """There is more to do."""


@dataclass(frozen=True)
class Scale:
    """What is trained where, and for how long."""

    device: str
    scale: str = "full"
    warm: int = 2
    steps: int = 5
    batch: int | None = None  # instead of the network's own
    planning: str = "background"

    def arguments(self) -> list[str]:
        return ["--device", self.device, "--scale", self.scale, "--warm", str(self.warm),
                "--steps", str(self.steps), *(["--batch", str(self.batch)] if self.batch else [])]

    def ways(self, wanted: Sequence[str] | None = None) -> list[str]:
        """Return the ways of this device, or those of them that are wanted, in a good order."""
        here = [way for way in WAYS if self.device == "cuda" or way not in ONLY_CUDA]
        if wanted is None:
            return here
        return [prefix + way for way in here for prefix in ("", UNPLANNED, HOST)
                if prefix + way in wanted]


class Points:
    """What processes said, by network, way and turn; kept in a file as it comes."""

    def __init__(self, path: Path, mark: str) -> None:
        self.path, self.mark = path, mark
        self.known: dict[tuple, dict] = {}
        whole, _, rest = (path.read_text() if path.exists() else "").rpartition("\n")
        if rest:  # cut short
            path.write_text(f"{whole}\n" if whole else "")
        for line in whole.splitlines():
            kept = json.loads(line)
            if kept["mark"] == mark:
                self.known[tuple(kept["key"])] = kept["answer"]

    def add(self, key: tuple, answer: dict) -> None:
        self.known[key] = answer
        with self.path.open("a") as file:
            file.write(json.dumps({"mark": self.mark, "key": key, "answer": answer}) + "\n")


def without_prefix(way: str) -> str:
    """Return what a way's budget follows from."""
    return way.removeprefix(UNPLANNED).removeprefix(HOST)


def command(scale: Scale, network: str, method: str, budget: str | None, *more: str,
            offload: str | None = None) -> list[str]:
    """Return the command of one process; `more` are arguments of the job."""
    job = [sys.executable, str(JOB), network, "--method", method, *scale.arguments(), *more]
    if budget is None:
        return job
    tier = ["--offload", offload] if offload else []
    return [sys.executable, "-m", "tidepool", "run", "--device", scale.device, "--budget", budget,
            *tier, "--", *job]


def environment(way: str, scale: Scale) -> dict[str, str]:
    """Return the variables of one process."""
    environ = clean_environment(preload=True)
    if way == "expandable":
        environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if scale.scale == "small":  # cuBLAS's usual workspaces are larger than all the rest
        environ["CUBLAS_WORKSPACE_CONFIG"] = ":16:8"
    environ["TIDEPOOL_PLANNING"] = "off" if way.startswith(UNPLANNED) else scale.planning
    return {**measure.with_package(environ), "TIDEPOOL_QUIET": "1"}


def ask(arguments: list[str], environ: dict[str, str], seconds: float) -> dict:
    """Run a process; return what it said, or its error.

    Raises:
        TimeIsUp: it was given less time than a process has, and did not end in that.
    """
    try:
        done = subprocess.run(arguments, env=environ, text=True, capture_output=True,
                              timeout=min(seconds, PIECE_SECONDS))
    except subprocess.TimeoutExpired as expired:
        if seconds < PIECE_SECONDS:
            raise TimeIsUp from expired
        return {"error": f"stopped after {PIECE_SECONDS} s"}
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "Error" in line]
        said = lines[-1] if lines else done.stderr.strip()[-300:]
        return {"error": f"exit status {done.returncode}: {said[:400]}"}
    answer = json.loads(done.stdout.splitlines()[-1])
    if "tidepool" in arguments and not answer["tidepool"]:
        return {"error": f"Tidepool was not attached: {done.stderr.strip()[-300:]}"}
    return answer


class Bench:
    """Trains one network in several ways."""

    def __init__(self, network: str, scale: Scale, points: Points) -> None:
        self.network, self.scale, self.points = network, scale, points

    def first(self, way: str) -> dict:
        """Return what the first turn of a way gave; nothing if it failed, or was not run."""
        answer = self.points.known.get((self.network, way, 0), {})
        return {} if "error" in answer else answer

    def budget(self, way: str) -> str | None:
        """Return the budget of a way, None without Tidepool.

        Raises:
            LookupError: the way that it follows from failed.
        """
        way = without_prefix(way)
        if way in STOCK:
            return None
        if way == "ample":
            return ALL[self.scale.device]
        if way == "as-checkpoint":
            peak = self.first("checkpoint").get("reserved_peak")
            if not peak:
                raise LookupError("nothing is known of checkpoint's memory")
            return str(peak)
        ample = self.first("ample")
        if not ample:
            raise LookupError("ample did not run")
        share, fixed = float(way.removeprefix("r=")), ample["fixed"]
        return str(int(fixed + share * (ample["tidepool"]["allocated_peak_bytes"] - fixed)))

    def run(self, ways: Sequence[str], turns: int, end: float, show: Callable = print) -> None:
        """Run what is not known yet.

        Raises:
            TimeIsUp: before all was done.
        """
        for turn in range(turns):
            # Later turns begin at another way; the first one in an order that has what it needs.
            first = turn * len(ways) // turns
            for way in (*ways[first:], *ways[:first]):
                key = (self.network, way, turn)
                if key in self.points.known:
                    continue
                if turn and "error" in self.points.known.get((self.network, way, 0), {}):
                    continue
                if time.monotonic() >= end:
                    raise TimeIsUp
                show(f"{self.network}: {way}, turn {turn + 1}")
                self.points.add(key, self.piece(way, end - time.monotonic()))

    def piece(self, way: str, seconds: float) -> dict:
        """Train once in one way; return what came of it."""
        try:
            budget = self.budget(way)
        except LookupError as error:
            return {"error": str(error)}
        method = way if way in STOCK and way != "expandable" else "plain"
        offload = HOST_MEMORY if way.startswith(HOST) else None
        answer = ask(command(self.scale, self.network, method, budget, offload=offload),
                     environment(way, self.scale), seconds)
        if self.scale.device == "cpu" and way in STOCK and "error" not in answer:
            answer["reserved_peak"] = self.first(way).get("reserved_peak") or self.counted(method)
        return {**answer, "budget": int(budget) if budget and budget.isdigit() else None}

    def counted(self, method: str) -> int | None:
        """Return the most bytes that a way allocates: on the CPU nobody else counts them."""
        answer = ask(command(self.scale, self.network, method, ALL["cpu"]),
                     environment("ample", self.scale), PIECE_SECONDS)
        return answer.get("tidepool", {}).get("allocated_peak_bytes")

    def largest(self, caps_mib: Sequence[int], end: float, show: Callable = print) -> None:
        """Look for the largest batches that are not known yet.

        Raises:
            TimeIsUp: before all was done.
        """
        for cap in caps_mib:
            for way in LARGEST_WAYS:
                if self.scale.device == "cpu" and way != "tidepool":
                    continue  # nothing caps PyTorch's memory there
                key = (self.network, f"largest, {way}", cap)
                if key in self.points.known:
                    continue
                left = end - time.monotonic()
                if left < (20 if self.scale.scale == "full" else 0):
                    raise TimeIsUp
                show(f"{self.network}: largest batch under {cap} MiB, {way}")
                budget = str(cap << 20) if way == "tidepool" else None
                method = "checkpoint" if way == "checkpoint" else "plain"
                search = min(left - 10, PIECE_SECONDS - 60)
                arguments = command(self.scale, self.network, method, budget, "--largest",
                                    str(cap), "--seconds", str(max(search, 5)))
                self.points.add(key, ask(arguments, environment(way, self.scale),
                                         left))

    def report(self) -> train_report.Report:
        return train_report.Report(self.network, self.points.known)


def mark(scale: Scale) -> str:
    """Return what tells points apart that must not be mixed."""
    said = measure.CARRIED / "COMMIT"
    commit = said.read_text().strip()[:12] if measure.uses_carried() else run.commit()
    return f"{commit}, {scale.scale}, {scale.device}, {scale.warm}+{scale.steps} steps" + (
        f", batch {scale.batch}" if scale.batch else "") + (
        ", waiting for plans" if scale.planning == "wait" else "")


def sections(benches: Sequence[Bench]) -> Iterator[str]:
    for bench in benches:
        yield f"\n## {bench.network}\n"
        yield from bench.report().markdown()


def write(folder: Path, benches: Sequence[Bench], text: str) -> None:
    """Write tables and plots."""
    (folder / "summary.md").write_text(text)
    for bench in benches:
        picture = bench.report().plot()
        if picture:
            (folder / f"{bench.network}.svg").write_text(picture)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="./dev train-bench")
    parser.add_argument("networks", nargs="*", metavar="NETWORK",
                        help=f"which (default: all of {', '.join(NETWORKS)})")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--scale", choices=("full", "medium", "small"), default="full")
    parser.add_argument("--ways", type=lambda text: text.split(","),
                        help="between commas (default: all)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="of a process, after the warm-up")
    parser.add_argument("--warm", type=int, default=2, help="steps before those that count")
    parser.add_argument("--wait-for-plans", action="store_true",
                        help="steps wait for the search; the warm-up has to be longer than it")
    parser.add_argument("--batch", type=int, help="instead of the network's own")
    parser.add_argument("--largest", action="store_true", help="look for the largest batches")
    parser.add_argument("--caps", type=lambda text: [int(each) for each in text.split(",")],
                        default=list(CAPS_MIB), metavar="MIB,MIB", help="for --largest")
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="end after that, with status 3")
    parser.add_argument("--out", type=Path, metavar="FOLDER",
                        default=measure.ROOT / "bench" / "results" / "train_bench")
    options = parser.parse_args(arguments)
    for name, given, known in (("network", options.networks, NETWORKS),
                               ("way", options.ways or [], WAYS)):
        unknown = [each for each in given if without_prefix(each) not in known]
        if unknown:
            parser.error(f"no {name} {', '.join(unknown)} (there are: {', '.join(known)})")
    if options.device == "cpu" and any(each.startswith(HOST) for each in options.ways or []):
        parser.error(f"{HOST} ways need --device cuda: there the host's memory is another one")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and write the results; return the exit status."""
    options = parse(arguments)
    scale = Scale(options.device, options.scale, options.warm, options.steps, options.batch,
                  "wait" if options.wait_for_plans else "background")
    options.out.mkdir(parents=True, exist_ok=True)
    points = Points(options.out / "points.jsonl", mark(scale))
    benches = [Bench(network, scale, points) for network in options.networks or NETWORKS]
    end, status = time.monotonic() + options.seconds, 0
    try:
        for bench in benches:
            if options.largest:
                bench.largest(options.caps, end)
            else:
                bench.run(scale.ways(options.ways), options.turns, end)
    except TimeIsUp:
        status = 3
    text = "\n".join([f"{points.mark}; {run.machine()['cpu']}", *sections(benches), ""])
    write(options.out, benches, text)
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
