"""Plans of networks from the literature by each solver, in the solvers' own model.

Usage: bench/solvers.py [NAME...] [--shares R,R...] [--seconds N] [-o FILE.csv]

The networks are those of Checkmate's comparison, recorded as shapes with
their backward and without an optimizer (shape_recorder.py). Budgets are shares of the peak. The own
search takes about a second, and ten; CP-SAT and, for steps that are small enough, the program of
HiGHS take N. Needs both: pip install ortools highspy.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import policy_bench
import torch
from shape_recorder import DeviceFigures, ShapeRecorder
from tidepool.planning import cp_sat, milp
from tidepool.planning.graph import Graph, graphs_of
from tidepool.planning.solution import Limits, Solution
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from networks.vision import ResNet

SEARCH_SECONDS = (1, 10)  # of the own search
MILP_OPERATORS = 80  # for more it finds nothing in such times
COLUMNS = ("network", "operators", "values", "gaps", "share", "solver", "time", "bound", "seconds",
           "proved")


def convolutions(inputs: int, outputs: int, count: int) -> nn.Sequential:
    """Return so many convolutions with ReLU."""
    layers: list[nn.Module] = []
    for k in range(count):
        layers += [nn.Conv2d(inputs if k == 0 else outputs, outputs, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers)


def vgg(counts: tuple[int, ...]) -> nn.Sequential:
    """Return VGG with so many convolutions in each stage."""
    widths = (3, 64, 128, 256, 512, 512)
    layers: list[nn.Module] = []
    for k, count in enumerate(counts):
        layers += [convolutions(widths[k], widths[k + 1], count), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(),
                         nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


def mobilenet() -> nn.Sequential:
    """Return MobileNet: convolutions of each channel alone, and of all channels at each point."""
    widths = (32, 64, 128, 128, 256, 256, *(512,) * 6, 1024, 1024)
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)

    def unit(inputs: int, outputs: int, size: int, stride: int, groups: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
                nn.BatchNorm2d(outputs), nn.ReLU()]

    layers = unit(3, widths[0], 3, 2)
    for before, width, stride in zip(widths, widths[1:], strides, strict=False):
        layers += unit(before, before, 3, stride, before) + unit(before, width, 1, 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


class UNet(nn.Module):
    """A U-Net of VGG's blocks: skips join what a stage of the way down has made."""

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512)) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            convolutions(before, width, 2)
            for before, width in zip((3, *widths), widths, strict=False))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(width, before, 2, 2)
            for before, width in zip(widths[-2::-1], widths[:0:-1], strict=False))
        self.join = nn.ModuleList(convolutions(2 * width, width, 2) for width in widths[-2::-1])
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Conv2d(widths[0], 20, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for k, block in enumerate(self.down):
            x = block(self.pool(x) if k else x)
            skips.append(x)
        skips.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), skips.pop()], 1))
        return self.last(x)


class FCN8(nn.Module):
    """FCN-8s on VGG16's stages: scores of three stages are added while they are scaled up."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 64, 128, 256, 512, 512)
        self.stages = nn.ModuleList(convolutions(before, width, count) for before, width, count in
                                    zip(widths, widths[1:], (2, 2, 3, 3, 3), strict=False))
        self.pool = nn.MaxPool2d(2)
        self.scores = nn.ModuleList(nn.Conv2d(width, 20, 1) for width in (256, 512, 512))
        self.up = nn.ModuleList(nn.ConvTranspose2d(20, 20, size, size) for size in (8, 2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = []
        for stage in self.stages:
            x = self.pool(stage(x))
            pooled.append(x)
        third, fourth, fifth = (score(each) for score, each in
                                zip(self.scores, pooled[2:], strict=True))
        return self.up[0](self.up[1](self.up[2](fifth) + fourth) + third)


class SegNet(nn.Module):
    """SegNet: the way up puts values where the pooling took them from."""

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512)) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            convolutions(before, width, 2)
            for before, width in zip((3, *widths), widths, strict=False))
        self.up = nn.ModuleList(
            convolutions(width, before, 2)
            for width, before in zip(widths[::-1], (*widths[-2::-1], 20), strict=True))
        self.pool = nn.MaxPool2d(2, return_indices=True)
        self.unpool = nn.MaxUnpool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = []
        for block in self.down:
            x, place = self.pool(block(x))
            places.append(place)
        for block in self.up:
            x = block(self.unpool(x, places.pop()))
        return x


class Classifier(nn.Module):
    """A network with its loss, for images that are all of the first class."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x, torch.zeros(len(x), dtype=torch.long, device=x.device))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {  # with the batch, of 224 by 224
    "vgg16": (lambda: vgg((2, 2, 3, 3, 3)), 64),
    "vgg19": (lambda: vgg((2, 2, 4, 4, 4)), 64),
    "mobilenet": (mobilenet, 64),
    "resnet50": (lambda: Classifier(ResNet(64, image=224, classes=1000, stem=(7, 2))), 64),
    "unet": (UNet, 16),
    "fcn8": (FCN8, 32),
    "segnet": (SegNet, 16),
}


def record_step(name: str, make: Callable[[], nn.Module], shape: tuple[int, ...],
                path: Path) -> None:
    """Write the trace of one step of a network, with images of such a shape."""
    with torch.device("meta"):
        model = make()
        images = torch.empty(shape)
    with ShapeRecorder(path, name, DeviceFigures()) as recorder:
        recorder.name_storages(model.parameters(), "parameter")
        recorder.name_storages([images], "input")
        model(images).sum().backward()
        with recorder.optimizing():
            pass


def solutions(path: Path, budget: list[str],
              seconds: float) -> Iterator[tuple[Graph, str, Solution]]:
    """Yield what each solver has found, and for which graph."""
    for effort in SEARCH_SECONDS:
        _, (graph, *_) = graphs_of(path, [*budget, "--graph-seconds", str(effort)])
        yield graph, f"gaps, {effort} s", Solution(list(graph.found), graph.found_ns, None,
                                                   graph.found_seconds, proved=False)
    yield graph, "cp-sat", cp_sat.solve(graph, seconds)
    if len(graph.costs_ns) <= MILP_OPERATORS:
        yield graph, "milp", milp.solve(graph, seconds, Limits())


def rows(name: str, shares: list[float], seconds: float) -> Iterator[dict]:
    """Yield a row for each budget and solver."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.jsonl.gz"
        make, batch = NETWORKS[name]
        record_step(name, make, (batch, 3, 224, 224), path)
        for share in shares:
            for graph, solver, found in solutions(path, ["--budget-ratio", str(share)], seconds):
                base = sum(graph.costs_ns)
                yield {"network": name, "operators": len(graph.costs_ns),
                       "values": len(graph.values), "gaps": len(graph.gaps), "share": share,
                       "solver": solver,
                       "time": found.time_ns and round(found.time_ns / base, 5),
                       "bound": found.bound and round(found.bound / base, 5),
                       "seconds": round(found.seconds, 1), "proved": found.proved}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--shares", type=policy_bench.parse_ratios, default=[0.9, 0.7, 0.5, 0.3])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("-o", "--output", type=Path)
    parsed = parser.parse_args()
    out = parsed.output.open("w") if parsed.output else sys.stdout
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    for name in parsed.names or NETWORKS:
        for row in rows(name, parsed.shares, parsed.seconds):
            writer.writerow(row)
            out.flush()


if __name__ == "__main__":
    main()
