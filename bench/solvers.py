"""Plans of networks from the literature by each solver, in the solvers' own model.

Usage: bench/solvers.py [NAME...] [--shares R,R...] [--seconds N] [-o FILE.csv]
       bench/solvers.py --monet [NAME...] [-o FILE.csv]

The networks are those of Checkmate's comparison, recorded as shapes with
their backward and without an optimizer (shape_recorder.py). Budgets are shares of the peak. The own
search takes about a second, and ten; CP-SAT and, for steps that are small enough, the program of
HiGHS take N. Needs both: pip install ortools highspy.

--monet: the networks, batches and shares of memory that MONeT (ICLR 2021) reports, with what it
takes longer there, beside the own search's plan in the solvers' model and what jobs do, with pages
and the plan that they find. MONeT's figures are those of a GPU with 16 GB; these are simulated.
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
MONET_COLUMNS = ("network", "operators", "share", "monet", "gaps", "job")


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


def normalized(inputs: int, outputs: int, size: int = 1, stride: int = 1, groups: int = 1,
               last: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return a convolution with batch normalization and what follows that."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups,
                                   bias=False), nn.BatchNorm2d(outputs), last())


def mobilenet() -> nn.Sequential:
    """Return MobileNet: convolutions of each channel alone, and of all channels at each point."""
    widths = (32, 64, 128, 128, 256, 256, *(512,) * 6, 1024, 1024)
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    layers: list[nn.Module] = [normalized(3, widths[0], 3, 2)]
    for before, width, stride in zip(widths, widths[1:], strides, strict=False):
        layers += [normalized(before, before, 3, stride, before), normalized(before, width)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


class InvertedResidual(nn.Module):
    """MobileNetV2's unit: wide inside, narrow where units meet."""

    def __init__(self, inputs: int, outputs: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = inputs * factor
        widening = [normalized(inputs, wide, last=nn.ReLU6)] if factor > 1 else []
        self.layers = nn.Sequential(*widening, normalized(wide, wide, 3, stride, wide, nn.ReLU6),
                                    normalized(wide, outputs, last=nn.Identity))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def mobilenet_v2() -> nn.Sequential:
    layers: list[nn.Module] = [normalized(3, 32, 3, 2, last=nn.ReLU6)]
    before = 32
    for factor, width, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                         (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for k in range(count):
            layers.append(InvertedResidual(before, width, stride if k == 0 else 1, factor))
            before = width
    return nn.Sequential(*layers, normalized(320, 1280, last=nn.ReLU6), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))


class Inception(nn.Module):
    """GoogleNet's unit: four ways from the input, side by side in the output."""

    def __init__(self, inputs: int, widths: tuple[int, int, int, int, int, int]) -> None:
        super().__init__()
        one, three_in, three, five_in, five, pooled = widths
        self.ways = nn.ModuleList([
            normalized(inputs, one),
            nn.Sequential(normalized(inputs, three_in), normalized(three_in, three, 3)),
            nn.Sequential(normalized(inputs, five_in), normalized(five_in, five, 3)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), normalized(inputs, pooled))])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([way(x) for way in self.ways], 1)


def googlenet() -> nn.Sequential:
    """Return GoogleNet with batch normalization, as torchvision has it, without side outputs."""
    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    layers: list[nn.Module] = [normalized(3, 64, 7, 2), pool, normalized(64, 64),
                               normalized(64, 192, 3), pool]
    before = 192
    for widths in ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
                   (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64),
                   (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
                   (256, 160, 320, 32, 128, 128), None,
                   (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)):
        if widths is None:
            layers.append(pool)
            continue
        layers.append(Inception(before, widths))
        before = widths[0] + widths[2] + widths[4] + widths[5]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(1024, 1000))


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


# MONeT's own figures: batch and image, GB without a budget, and by how many percent a step takes
# longer with so many GB.
MONET: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], float, dict[float, float]]] = {
    "resnet50": (NETWORKS["resnet50"][0], (184, 3, 224, 224), 15.06,
                 {10: 3.22, 8: 5.56, 6: 9.31, 5: 11.95}),
    "googlenet": (googlenet, (320, 3, 224, 224), 14.93, {10: 7.13, 8: 8.44, 6: 12.14, 5: 15.77}),
    "unet": (UNet, (11, 3, 416, 608), 14.32, {10: -4.10, 8: -0.09, 6: 4.95, 5: 11.51}),
    "mobilenet_v2": (mobilenet_v2, (272, 3, 224, 224), 14.46,
                     {10: 2.40, 8: 4.77, 6: 7.55, 5: 8.72}),
    "vgg16": (NETWORKS["vgg16"][0], (176, 3, 224, 224), 14.12,
              {9.7: -5.30, 7.9: -2.18, 5.9: 5.44, 5.5: 9.11}),
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


def beside_monet(name: str) -> Iterator[dict]:
    """Yield a row for each share of the memory that MONeT reports."""
    make, shape, whole, figures = MONET[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.jsonl.gz"
        record_step(name, make, shape, path)
        for size, longer in figures.items():
            share = ["--budget-ratio", f"{size / whole:.4f}"]
            _, (graph, *_) = graphs_of(path, [*share, "--graph-seconds", "10"])
            job = policy_bench.ask(path, *share, "--policy", "default", "--iterations", "7")
            base = sum(graph.costs_ns)
            yield {"network": name, "operators": len(graph.costs_ns), "share": size / whole,
                   "monet": 1 + longer / 100,
                   "gaps": graph.found_ns and round(graph.found_ns / base, 4),
                   "job": round(job["overhead"], 4) if job["status"] == "ok" else job["status"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--shares", type=policy_bench.parse_ratios, default=[0.9, 0.7, 0.5, 0.3])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--monet", action="store_true", help="beside MONeT's own figures")
    parser.add_argument("-o", "--output", type=Path)
    parsed = parser.parse_args()
    out = parsed.output.open("w") if parsed.output else sys.stdout
    writer = csv.DictWriter(out, MONET_COLUMNS if parsed.monet else COLUMNS)
    writer.writeheader()
    for name in parsed.names or (MONET if parsed.monet else NETWORKS):
        found = beside_monet(name) if parsed.monet else rows(name, parsed.shares, parsed.seconds)
        for row in found:
            writer.writerow(row)
            out.flush()


if __name__ == "__main__":
    main()
