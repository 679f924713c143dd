"""Trains networks on the stand-in CUDA device, and prints what the allocator's memory did.

    python training_jobs.py [--watch] NAME...

Each case is an ordinary training loop of three steps that knows nothing of Tidepool. One line of
JSON on standard output has the figures by case, with --watch also the races that were found.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "support"))

import standin  # noqa: E402
import torch  # noqa: E402
from networks import NETWORKS  # noqa: E402
from operand_watch import OperandWatch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint_sequential  # noqa: E402

STEPS = 3
device = standin.Device()


def to_device(value, where: str):
    """Move the tensors of a batch."""
    return torch.utils._pytree.tree_map(
        lambda each: each.to(where) if isinstance(each, torch.Tensor) else each, value)


# As large as jobs are that need a GPU: device memory that nobody touches costs nothing.
SIZES = {"unet": {"width": 32, "depth": 4, "image": 128, "batch": 16}}


def train(network: str, where: str = "cuda", amp: bool = False, channels_last: bool = False,
          **optimizer_options) -> None:
    """Train one of the networks of the end-to-end tests."""
    data = torch.Generator().manual_seed(1)
    kind = NETWORKS[network]
    model = kind.kind(**{**kind.budget, **SIZES.get(network, {})}).to(where)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **optimizer_options)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for number in range(STEPS):
        batch = to_device(model.batch(number, data), where)
        optimizer.zero_grad()
        with torch.device(where), torch.autocast("cuda", torch.float16, enabled=amp):
            loss = model(*batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def train_with_checkpoints() -> None:
    """Train a deep net of which a part of the activations is computed again."""
    layers = nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(12)])
    layers.cuda()
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        value = torch.randn(2048, 512, device="cuda", requires_grad=True)
        checkpoint_sequential(layers, 4, value, use_reentrant=False).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def train_with_a_graph() -> None:
    """Capture a training step, and replay it."""
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    batch = torch.randn(64, 256, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(STEPS):
        batch.copy_(torch.randn(64, 256, device="cuda"))
        graph.replay()
    torch.cuda.synchronize()
    graph.reset()


def train_with_a_side_stream() -> None:
    """Load each batch on a stream of its own."""
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loading = torch.cuda.Stream()
    for _ in range(3 * STEPS):
        with torch.cuda.stream(loading):
            batch = torch.randn(512, 1024, pin_memory=True).to("cuda", non_blocking=True) * 2
        torch.cuda.current_stream().wait_stream(loading)
        batch.record_stream(torch.cuda.current_stream())
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def train_on_two_devices() -> None:
    """Split a net over two devices."""
    first, second = nn.Linear(512, 512).to("cuda:0"), nn.Linear(512, 512).to("cuda:1")
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
    for _ in range(STEPS):
        middle = first(torch.randn(256, 512, device="cuda:0")).relu()
        second(middle.to("cuda:1")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


CASES = {
    "mlp": lambda: train("mlp"),
    "resnet50": lambda: train("resnet50", channels_last=True, amp=True),
    "unet": lambda: train("unet", foreach=True),
    "gpt": lambda: train("gpt", amp=True, fused=True),
    "bert": lambda: train("translation", fused=True),
    "lstm": lambda: train("bilstm", foreach=False),
    "checkpoint": train_with_checkpoints,
    "graph": train_with_a_graph,
    "side_stream": train_with_a_side_stream,
    "two_devices": train_on_two_devices,
}


def figures() -> dict[str, int]:
    """Return peaks and sums of all devices."""
    found: dict[str, int] = {}
    for index in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats(index)
        for name in ("requested_bytes", "allocated_bytes", "reserved_bytes", "allocation"):
            for kind in ("peak", "allocated", "freed", "current"):
                key = f"{name}.{kind}"
                found[key] = found.get(key, 0) + stats[f"{name}.all.{kind}"]
    return found


def clean_up() -> None:
    torch.cuda.synchronize()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    for index in range(torch.cuda.device_count()):
        torch.cuda.reset_peak_memory_stats(index)
        torch.cuda.reset_accumulated_memory_stats(index)


def run(name: str, watched: bool) -> dict[str, int]:
    """Run a case from a clean state; return its figures, and what it left behind."""
    torch.manual_seed(0)
    clean_up()
    with OperandWatch(device) if watched else nullcontext():
        CASES[name]()
    torch.cuda.synchronize()
    found = figures()
    clean_up()
    left = figures()
    return {**found, "left_allocated": left["allocated_bytes.current"],
            "left_reserved": left["reserved_bytes.current"],
            "left_used": sum(device.used_bytes(i) for i in range(torch.cuda.device_count()))}


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--watch"]
    watched = "--watch" in sys.argv
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    if watched:
        device.watch_allocator()
    said = {name: run(name, watched) for name in names or CASES}
    print(json.dumps({**said, "races": device.races(), "misuses": device.misuses()}), flush=True)
    # Stock PyTorch may abort where a job ends right after a backward: autograd's thread still asks
    # for Python's lock.
    os._exit(0)


if __name__ == "__main__":
    main()
