"""Trains while calls of the device are refused, each in turn, and prints what became of it as JSON.

    python refusal_jobs.py [--lasting] [--capture] [KIND...]

For every kind of call and every n, the n-th call of a training step fails; with --lasting, those
after it, too. The step may end well or with an error of PyTorch's; then nothing may have leaked,
and the next step has to end well. The step has three layers, a batch that another stream loads, and
a copy back to the host; with --capture, the net is captured in a graph instead.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin
import torch
from torch import nn

KINDS = ("reserve", "create", "map", "access", "unmap", "release", "event_create", "event_record",
         "event_query", "stream_wait", "stream_query", "synchronize", "malloc", "free", "copy",
         "fill", "launch", "capture", "graph_launch")
device = standin.Device()


class Training:
    """A net whose every step starts with an empty cache."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024),
                                   nn.ReLU(), nn.Linear(1024, 256)).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loading = torch.cuda.Stream()
        # Freeing pinned memory records events, too: PyTorch 2.11 ends where that is refused.
        self.host = torch.randn(1024, 256, pin_memory=True)

    def step(self) -> None:
        with torch.cuda.stream(self.loading):
            batch = self.host.to("cuda", non_blocking=True).repeat(1, 8)
        torch.cuda.current_stream().wait_stream(self.loading)
        batch.record_stream(torch.cuda.current_stream())
        part = batch[:, :256].contiguous()
        del batch  # its memory is the other stream's, and this one may need it
        loss = self.model(part).square().mean()
        loss.backward()
        self.optimizer.step()
        loss.item()

    def clean_up(self) -> None:
        for parameter in self.model.parameters():
            parameter.grad = None
        torch.cuda.synchronize()
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


class Capturing(Training):
    """Captures the net in a graph, and replays it."""

    def __init__(self) -> None:
        super().__init__()
        self.batch = torch.randn(1024, 256, device="cuda")

    def step(self) -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.model(self.batch)
        graph.replay()
        torch.cuda.synchronize()
        graph.reset()

    def clean_up(self) -> None:
        torch.empty(8 << 20, dtype=torch.uint8, device="cuda")  # kept while a capture goes on
        super().clean_up()


def books() -> dict[str, int]:
    """Return what is held: by tensors, by the allocator, and of the device."""
    stats = torch.cuda.memory_stats()
    held = {name: stats[f"{name}.all.current"]
            for name in ("allocation", "allocated_bytes", "active_bytes", "reserved_bytes")}
    return {**held, "used": device.used_bytes(), "mappings": device.live("mappings")}


def refuse_each(training: Training, before: dict, kind: str, times: int) -> dict:
    """Refuse the first call of a kind in a step, the second in the next one, and so on.

    Args:
        before: the books of a training that has made no step.
        times: how many calls are refused in a row.
    """
    ends: Counter[str] = Counter()
    problems: list[str] = []
    n = 0
    while True:
        n += 1
        refused = device.failures(kind)
        device.set(fail=f"{kind}:{n}x{times}")
        try:
            training.step()
            training.clean_up()
            end = "well"
        except RuntimeError as error:  # OutOfMemoryError and AcceleratorError, too
            end = type(error).__name__
            error.__traceback__ = None
        device.clear_failures()
        if device.failures(kind) == refused:
            break  # a step has no more of them
        ends[end] += 1
        training.clean_up()
        after = books()
        if after != before:
            problems.append(f"{kind} {n}, ended {end}: {after} instead of {before}")
        training.step()
        training.clean_up()
    return {"calls": n - 1, "ends": ends, "problems": problems}


def main() -> None:
    torch.cuda.init()
    gc.freeze()  # collecting happens thousands of times
    device.watch_allocator()
    training = Capturing() if "--capture" in sys.argv else Training()
    training.clean_up()
    before = books()
    for _ in range(2):
        training.step()
        training.clean_up()
    kinds = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    times = 1_000_000 if "--lasting" in sys.argv else 1
    found = {kind: refuse_each(training, before, kind, times) for kind in kinds or KINDS}
    print(json.dumps({"kinds": found, "races": device.races(), "misuses": device.misuses()}),
          flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
