"""Time and energy of plans under bounds on either, beside the program of HiGHS.

Usage: bench/pareto.py [NAME...] [--share R] [--points N] [--seconds N] [-o FILE.csv]

Small networks are recorded as shapes with their backward (shape_recorder.py), so that the program
can be solved. For each, `tidepool plan` makes the time and the energy small, and then each of them
under N bounds on the other, evenly between what the two plans of `gaps` without bounds take.
The table of energy is made up so that the two differ: what takes little time takes much energy.
Needs: pip install highspy.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from solvers import UNet, record_step
from torch import nn

WATTS = {"watts": 800, "operators": dict.fromkeys(
    ("aten::convolution", "aten::convolution_backward", "aten::addmm", "aten::mm", "aten::bmm",
     "aten::baddbmm"), 150)}
PRINTED = 0.0001  # prices are rounded to that
OTHER = {"time": "energy", "energy": "time"}
COLUMNS = ("network", "operators", "share", "least", "bounded", "most", "solver", "time", "energy",
           "bound", "proved", "seconds", "followed_time", "followed_energy")
MODEL = re.compile(r"step 1, (\d+) operators: best (\S+), bound (\S+), "
                   r"(proved|not proved), (\S+) s")
MODEL_ENERGY = re.compile(r"energy: best (\S+),")
FOLLOWED = re.compile(r"in simulation with pages: ([\d.]+), \d+ evictions; energy ([\d.]+)")


def alexnet() -> nn.Sequential:
    """Return AlexNet, without dropout."""
    shapes = ((3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1),
              (256, 256, 3, 1, 1))
    layers: list[nn.Module] = []
    for k, shape in enumerate(shapes):
        layers += [nn.Conv2d(*shape), nn.ReLU()]
        if k in (0, 1, 4):
            layers.append(nn.MaxPool2d(3, 2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(),
                         nn.Linear(4096, 1000))


def perceptron(layers: int, width: int) -> nn.Sequential:
    """Return layers with GELU and layer norms."""
    return nn.Sequential(*(layer for _ in range(layers) for layer in
                           (nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {  # with its input's shape
    "alexnet": (alexnet, (512, 3, 224, 224)),
    "perceptron": (lambda: perceptron(5, 1024), (16384, 1024)),
    "unet": (lambda: UNet((64, 128)), (16, 3, 224, 224)),
}


@dataclass(frozen=True)
class Found:
    """What `tidepool plan` says: multiples of what the step takes without a budget."""

    operators: int
    time: float | None  # in the solver's model, as the next two
    energy: float | None
    bound: float | None
    proved: bool
    seconds: float
    followed: tuple[float, float] | None  # time and energy in simulation; None: no plan

    def price(self, kind: str) -> float | None:
        return self.time if kind == "time" else self.energy


def plan(folder: Path, share: float, solver: str, seconds: float, least: str,
         most: float | None) -> Found | str:
    """Find a plan for the folder's trace; return a message where there is none."""
    command = [sys.executable, "-m", "tidepool", "plan", str(folder / "trace.jsonl.gz"), "--budget",
               f"{100 * share:g}%", "--solver", solver, "--seconds", f"{seconds:g}", "--energy",
               str(folder / "watts.json"), "--least", least, "-o", str(folder / "found.plan")]
    if most is not None:
        command += [f"--most-{OTHER[least]}", f"{most:.5f}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    model, energy = MODEL.search(done.stdout), MODEL_ENERGY.search(done.stdout)
    if model is None or energy is None:
        return done.stderr.strip()
    operators, time, bound, proved, took = model.groups()
    followed = FOLLOWED.findall(done.stdout)
    return Found(int(operators), number(time), number(energy[1]), number(bound),
                 proved == "proved", float(took),
                 tuple(map(float, followed[-1])) if followed and not done.returncode else None)


def number(text: str) -> float | None:
    return None if text == "none" else float(text)


def bounds(ends: dict[str, Found], kind: str, points: int) -> list[float]:
    """Return bounds on a price between those of the two plans without bounds."""
    low, high = ends[kind].price(kind), ends[OTHER[kind]].price(kind)
    if low is None or high is None:
        return []
    return [low + (high - low) * k / points + PRINTED for k in range(1, points + 1)]


def rows(name: str, share: float, points: int, seconds: float) -> Iterator[dict]:
    """Yield a row for each bound and solver."""
    make, shape = NETWORKS[name]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        record_step(name, make, shape, folder / "trace.jsonl.gz")
        (folder / "watts.json").write_text(json.dumps(WATTS))

        def row(solver: str, least: str, most: float | None) -> tuple[dict, Found | str]:
            found = plan(folder, share, solver, 10 if solver == "gaps" else seconds, least, most)
            made = {"network": name, "share": share, "least": least, "most": most,
                    "bounded": OTHER[least] if most is not None else "", "solver": solver}
            if isinstance(found, Found):
                followed = found.followed or (None, None)
                made |= {"operators": found.operators, "time": found.time, "energy": found.energy,
                         "bound": found.bound, "proved": found.proved, "seconds": found.seconds,
                         "followed_time": followed[0], "followed_energy": followed[1]}
            else:
                made["bound"] = found
            return made, found

        ends = {}
        for least in OTHER:
            for solver in ("gaps", "milp"):
                made, found = row(solver, least, None)
                yield made
                if solver == "gaps" and isinstance(found, Found) and found.time is not None:
                    ends[least] = found
        if len(ends) < len(OTHER):
            return
        for least, bounded in OTHER.items():
            for most in bounds(ends, bounded, points):
                for solver in ("gaps", "milp"):
                    yield row(solver, least, most)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--share", type=float, default=0.7, help="of the peak, as the budget")
    parser.add_argument("--points", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60, help="for each of milp's programs")
    parser.add_argument("-o", "--output", type=Path)
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    out = parsed.output.open("w") if parsed.output else sys.stdout
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    for name in parsed.names or NETWORKS:
        for row in rows(name, parsed.share, parsed.points, parsed.seconds):
            writer.writerow(row)
            out.flush()


if __name__ == "__main__":
    main()
