"""Whether training scripts that others wrote compute the same under budgets and under chaos.

Usage: python bench/real_scripts.py [SCRIPT...] [--ways W;W...] [--sources FOLDER] [--out FILE]
       [--keep FOLDER] [--list]

The packages that the scripts belong to have to be installed beside PyTorch, and what some of them
have only in their source archives lies unpacked in --sources; scripts that are not there are left
out. What a script reads is made here (bench/jobs/script_inputs.py). Each runs as it is, with ample
memory, under a budget that leaves six tenths of what comes and goes in its steps, and under chaos;
on demand under six tenths of its whole peak with a file as second tier, too. Parameters are hashed
after each step of an optimizer (bench/jobs/watched_script.py), and what is printed is compared. A
script that is out of memory runs again under the budget that the error says to try.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import measure
import run
from environments import clean_environment

JOBS = measure.ROOT / "bench" / "jobs"
WAYS = ("ample", "r=0.6", "random:5")  # and "r=0.6, file", "bounded", other modes of chaos
LEAST_BUDGET = 256 << 10  # some scripts take a few KiB
SHARE = 0.6
LIMIT_SECONDS = 900
TRIES = 4  # budgets, where the first is too small
TIMES = re.compile("fps|time|second|speed")  # lines that hold such differ by chance
RANKS = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


@dataclass
class Script:
    """A training script, and how it is run.

    In `command`, which begins with `-m MODULE`, a console script of the environment, or a path in
    the sources, {inputs} is the folder of what it reads.
    """

    package: str
    command: str
    inputs: str = ""
    ranks: int = 0
    variables: dict[str, str] = field(default_factory=dict)

    def target(self, sources: Path | None) -> list[str] | None:
        """Return its command, or None where it is not there."""
        if importlib.util.find_spec(self.package) is None:
            return None
        first, *rest = self.command.split()
        if first == "-m":
            return [first, *rest]
        places = [Path(sys.executable).parent, *(sources.iterdir() if sources else [])]
        found = next((place / first for place in places if (place / first).exists()), None)
        return found and [str(found), *rest]


ZOO = "-m rl_zoo3.train --seed 1 --eval-freq -1 -f out --device cpu"
SPIKES = "-m spikingjelly.activation_based.examples"
ACCELERATE = "-m accelerate.test_utils.scripts"
ON_CPU = {"ACCELERATE_USE_CPU": "true"}
TRL = ("--model_name_or_path {inputs}/model --output_dir out --use_cpu --bf16 False "
       "--report_to none --per_device_train_batch_size 8")
SCRIPTS = {
    "accelerate: training check": Script("accelerate", f"{ACCELERATE}.test_script",
                                         variables=ON_CPU),
    "accelerate: accumulation": Script("accelerate", f"{ACCELERATE}.test_sync", variables=ON_CPU),
    "accelerate: training check, 2 ranks": Script("accelerate", f"{ACCELERATE}.test_script",
                                                  ranks=2, variables=ON_CPU),
    "accelerate: accumulation, 2 ranks": Script("accelerate", f"{ACCELERATE}.test_sync", ranks=2,
                                                variables=ON_CPU),
    "accelerate: uneven batches, 2 ranks": Script(
        "accelerate", f"{ACCELERATE}.test_distributed_data_loop", ranks=2, variables=ON_CPU),
    "chemprop: message passing": Script(
        "chemprop", "chemprop train -i {inputs}/molecules.csv --smiles-columns smiles "
        "--target-columns target --task-type regression --epochs 3 --batch-size 16 -o out "
        "--accelerator cpu --num-workers 0 --pytorch-seed 1", "molecules"),
    "mace: forces": Script(
        "mace", "-m mace.cli.run_train --name m --train_file {inputs}/train.xyz --device cpu "
        "--valid_fraction 0.2 --E0s average --num_channels 16 --max_L 1 --r_max 4 --batch_size 4 "
        "--max_num_epochs 1 --default_dtype float32 --work_dir out --energy_key REF_energy "
        "--forces_key REF_forces", "atoms"),
    "open_clip: ViT-S/32": Script(
        "open_clip_train", "-m open_clip_train.main --dataset-type synthetic --train-num-samples "
        "16 --batch-size 8 --epochs 1 --workers 0 --model ViT-S-32-alt --device cpu --logs out"),
    "opacus: private CNN": Script("opacus", "examples/mnist.py --device cpu -n 1 "
                                  "--data-root {inputs}", "digits"),
    "opacus: private LSTM": Script(
        "opacus", "examples/char-lstm-classification.py --data-root {inputs} --device cpu -b 32 "
        "--epochs 1", "names"),
    "pykeen: RotatE": Script("pykeen", "-m pykeen train rotate --dataset nations -n 2 "
                             "--random-seed 1 --device cpu"),
    "rl_zoo3: PPO": Script("rl_zoo3", f"{ZOO} --algo ppo --env CartPole-v1 -n 500"),
    "rl_zoo3: DQN": Script("rl_zoo3", f"{ZOO} --algo dqn --env CartPole-v1 -n 1300"),
    "rl_zoo3: SAC": Script("rl_zoo3", f"{ZOO} --algo sac --env Pendulum-v1 -n 150"),
    "rl_zoo3: recurrent PPO": Script("rl_zoo3", f"{ZOO} --algo ppo_lstm --env CartPoleNoVel-v1 "
                                     "-n 300"),
    "spikingjelly: LIF, MNIST": Script(
        "spikingjelly", f"{SPIKES}.lif_fc_mnist -T 16 -device cpu -epochs 1 -j 0 "
        "-data-dir {inputs} -out-dir out", "digits"),
    "spikingjelly: convolutions": Script(
        "spikingjelly", f"{SPIKES}.conv_fashion_mnist -T 2 -device cpu -b 32 -epochs 1 -j 0 "
        "-data-dir {inputs} -out-dir out -channels 16 -opt adam", "digits"),
    "trl: SFT, checkpointed": Script("trl", f"-m trl.scripts.sft {TRL} --max_steps 4 "
                                     "--dataset_name {inputs}/texts", "language"),
    "trl: DPO, LoRA": Script(
        "trl", f"-m trl.scripts.dpo {TRL} --max_steps 3 --dataset_name {{inputs}}/pairs --use_peft "
        "--lora_target_modules q_proj v_proj", "language"),
    "ultralytics: YOLO11n": Script(
        "ultralytics", "yolo train model=yolo11n.yaml data={inputs}/pictures.yaml epochs=1 "
        "imgsz=96 batch=4 device=cpu workers=0 plots=False amp=False", "pictures"),
}


@dataclass
class Ran:
    """What became of a script in one way."""

    status: int
    printed: list[str]
    errors: str
    said: list[dict]
    seconds: float

    @property
    def memory(self) -> list[dict]:
        """Return what each rank says of its memory."""
        return [each["memory"] for each in self.said if each["memory"]]


class Runner:
    """One script, run in several ways in a folder of its own."""

    def __init__(self, script: Script, target: Sequence[str], folder: Path) -> None:
        self.script, self.folder, self.runs = script, folder, 0
        inputs = folder / "inputs"
        if script.inputs:
            command = [sys.executable, str(JOBS / "script_inputs.py"), script.inputs, str(inputs)]
            subprocess.run(command, check=True, env=self.environ())
        self.target = [each.format(inputs=inputs) for each in target]

    def environ(self) -> dict[str, str]:
        """Return the environment of all ways: no network, no GPU, no threads, no chance."""
        fixed = {"TIDEPOOL_QUIET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1",
                 "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg",
                 "YOLO_OFFLINE": "true", "GLOO_SOCKET_IFNAME": "lo"}
        return measure.with_package(clean_environment(preload=True)) | fixed | self.script.variables

    def run(self, *front: str) -> Ran:
        """Run the script behind what stands in front of its command."""
        self.runs += 1
        work, out = self.folder / f"work{self.runs}", self.folder / f"out{self.runs}"
        work.mkdir()
        out.mkdir()
        ranks = [*RANKS, str(self.script.ranks)] if self.script.ranks else []
        command = [*front, sys.executable, *ranks, str(JOBS / "watched_script.py"), str(out),
                   *self.target]
        started = time.monotonic()
        done = subprocess.Popen(command, cwd=work, env=self.environ(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL)
        try:
            printed, errors = done.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            done.kill()
            printed, errors = done.communicate()
            errors += "\nout of time"
        lines = [line.replace(str(work), "").replace(str(out), "")
                 for line in printed.splitlines() if not TIMES.search(line)]
        if ranks:  # they write into each other's lines
            lines = []
        said = [json.loads(path.read_text()) for path in sorted(out.iterdir())]
        return Ran(done.returncode, lines, errors, said, time.monotonic() - started)

    def attached(self, way: str, ample: Ran | None) -> tuple[int, Ran]:
        """Run it with Tidepool in one way; return the budget that it got in the end, too."""
        options = ["--device", "cpu"]
        budget = 8 << 30
        if way.startswith("r="):
            peak = max(each["allocated_peak_bytes"] for each in ample.memory)
            least = max(each["least"] or 0 for each in ample.said)
            if way.endswith("file"):
                least = 0
                options += ["--offload", f"file:{self.folder}:4GiB"]
            budget = max(int(least + SHARE * (peak - least)), LEAST_BUDGET)
        elif way != "ample":
            options.append(f"--chaos={way}")
        for _ in range(TRIES):
            front = [sys.executable, "-m", "tidepool", "run", "--budget", str(budget), *options]
            ran = self.run(*front, "--")
            advised = measure.budget_to_try(ran.errors)
            if ran.status == 0 or not advised or advised <= budget:
                break
            budget = advised
        return budget, ran


def verdict(plain: Ran, again: Ran | None, other: Ran) -> str:
    """Return whether one way gave what the script gives without Tidepool, or why it did not."""
    if other.status != plain.status:
        if "out of time" in other.errors:
            return "longer than a quarter of an hour"
        if "OutOfMemoryError" in other.errors:
            return "**out of memory**"
        return f"**status {other.status}**"
    if [(each["steps"], each["digest"]) for each in other.said] != [
            (each["steps"], each["digest"]) for each in plain.said]:
        if again and [each["digest"] for each in again.said] != [
                each["digest"] for each in plain.said]:
            return "varies without, too"
        return "**DIFFERENT**"
    if again and len(plain.printed) == len(again.printed) and (
            len(other.printed) != len(plain.printed) or any(
                one == two != three for one, two, three in
                zip(plain.printed, again.printed, other.printed, strict=True))):
        return "**PRINTS OTHERWISE**"
    if any(each["contents_different"] for each in other.memory):
        return "**CONTENTS CAME BACK OTHERWISE**"
    if any(each["reserved_peak_bytes"] > each["budget_bytes"] for each in other.memory):
        return "**MORE THAN THE BUDGET**"
    return "same"


def under(way: str, budget: int, ran: Ran, ample: Ran) -> str:
    """Return, to be appended, which budget it got and what was done to keep it."""
    if way == "ample" or not ran.memory:
        return ""
    peak = max(each["allocated_peak_bytes"] for each in ample.memory)
    done = f"{total(ran, 'evictions')} evicted, {total(ran, 'operators_replayed')} replayed"
    return f" ({f'{budget / peak:.2f}: ' if way.startswith('r=') else ''}{done})"


def total(ran: Ran, key: str) -> int:
    """Return a statistic, summed over ranks."""
    return sum(each[key] for each in ran.memory)


def row(name: str, runner: Runner, ways: Sequence[str], keep: Path | None) -> str:
    """Run a script in all ways; return its line of the table."""
    plain, again = runner.run(), None
    if plain.status != 0:
        return f"| {name} | does not run without, either: {plain.errors.splitlines()[-1:]} |"
    cells, ample = [], None
    for way in ["ample", *(each for each in ways if each != "ample")]:
        budget, ran = runner.attached(way, ample)
        ample = ample or ran
        if again is None and (ran.printed != plain.printed or verdict(plain, None, ran) != "same"):
            again = runner.run()
        said = verdict(plain, again, ran)
        print(f"{name}, {way}: {said}, {ran.seconds:.0f} s of {plain.seconds:.0f}", flush=True)
        if "**" in said and keep:
            keep.mkdir(exist_ok=True)
            (keep / f"{name} {way}.txt".replace("/", "_")).write_text(
                ran.errors + "\n".join(["", *ran.printed]))
        if not ample.memory:
            cells.append(said)
            break
        cells.append(said + under(way, budget, ran, ample))
    peak = max((each["allocated_peak_bytes"] for each in ample.memory), default=0) / (1 << 20)
    least = max((each["least"] or 0 for each in ample.said), default=0) / (1 << 20)
    steps = sum(each["steps"] for each in plain.said)
    return f"| {name} | {steps} | {peak:.1f} | {least:.1f} | {' | '.join(cells)} |"


def text(rows: Sequence[str], ways: Sequence[str]) -> str:
    """Return the table."""
    head = ["script", "optimizer steps", "peak, MiB", "lasting, MiB", *ways]
    return "\n".join([
        "# Training scripts that others wrote", "",
        f"`python bench/real_scripts.py`; {run.machine()['cpu']}, commit {run.commit()}.",
        "`same`: the parameters after each step of each optimizer, on each rank, and what a single",
        "process prints, but for times and what differs without Tidepool, too; and no byte more",
        "than the budget. Lasting is the least that was allocated after a step. `r=0.6` leaves,",
        "besides it, six tenths of the rest of the peak, and 256 KiB at least; with a file, six",
        "tenths of the whole peak. Where a request needs more, the budget is that which the error",
        "says to try; its share of the peak stands before the evictions.",
        "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *rows, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is installed and write the table; return 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="the beginning of a name")
    parser.add_argument("--ways", type=lambda given: given.split(";"), default=list(WAYS),
                        help="separated by semicolons")
    parser.add_argument("--sources", type=Path, help="where source archives were unpacked")
    parser.add_argument("--out", type=Path, help="a file for the table")
    parser.add_argument("--keep", type=Path, help="a folder for what differing jobs said")
    parser.add_argument("--list", action="store_true", help="only say which are there")
    options = parser.parse_args(arguments)
    ways, rows = ["ample", *(way for way in options.ways if way != "ample")], []
    for name, script in SCRIPTS.items():
        if options.scripts and not name.startswith(tuple(options.scripts)):
            continue
        target = script.target(options.sources and options.sources.resolve())
        if options.list:
            print(f"{name}: {' '.join(target) if target else 'not installed'}")
        if target is None or options.list:
            continue
        with tempfile.TemporaryDirectory() as folder:
            runner = Runner(script, target, Path(folder))
            rows.append(row(name, runner, ways, options.keep))
        if options.out:  # so that what is done is there if the rest is broken off
            options.out.write_text(text(rows, ways))
    print(text(rows, ways))
    return int("**" in "".join(rows))


if __name__ == "__main__":
    sys.exit(main())
