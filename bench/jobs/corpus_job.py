"""Train a network of the trace corpus for some steps: an ordinary script at CPU scale.

    corpus_job.py NAME --rounds N             at CPU scale, each round with the same batches
    corpus_job.py NAME --gpu FILE.jsonl.gz    at GPU scale: with shapes only, recorded into FILE
    corpus_job.py NAME --marks                print how many optimizer steps a round has

A step trains each of the network's parts once. A round to warm up comes first.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from corpus_networks import CORPUS, CorpusNetwork

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


class Training:
    """A network with an optimizer for each part."""

    def __init__(self, network: CorpusNetwork, scale: str) -> None:
        torch.manual_seed(1)
        self.model = network.build(scale)
        self.device = torch.device("cpu")
        if scale == "gpu":
            if network.half:
                self.model = self.model.to(torch.bfloat16)
            self.device = torch.device("meta")
        parts = self.model.parts() if hasattr(self.model, "parts") else [self.model]
        foreach = scale == "gpu" and network.foreach
        self.optimizers = [torch.optim.AdamW(part.parameters(), lr=1e-3, foreach=foreach)
                           for part in parts]

    def batch(self, step: int) -> list[torch.Tensor]:
        """Return a step's batch, on the CPU."""
        with torch.device("cpu"):
            return self.model.batch(step, torch.Generator().manual_seed(step))

    def step(self, batch: list[torch.Tensor], around_optimizer=contextlib.nullcontext) -> None:
        batch = [_placed(tensor, self.device, self.model) for tensor in batch]
        for part, optimizer in enumerate(self.optimizers):
            which = {"part": part} if hasattr(self.model, "parts") else {}
            loss = self.model(*batch, **which)
            optimizer.zero_grad()
            loss.backward()
            with around_optimizer():
                optimizer.step()
        if hasattr(self.model, "after_step"):
            self.model.after_step()


def _placed(tensor: torch.Tensor, device: torch.device, model: torch.nn.Module) -> torch.Tensor:
    kind = next(model.parameters()).dtype if tensor.is_floating_point() else tensor.dtype
    return tensor.to(device, kind) if device.type == "meta" else tensor


def train(name: str, rounds: int) -> None:
    """Train at CPU scale: one round to warm up, and `rounds` more."""
    training = Training(CORPUS[name], "cpu")
    steps = CORPUS[name].steps
    batches = [training.batch(step) for step in range(steps)]
    gc.collect()
    gc.disable()  # so that every round frees what it frees at the same places
    for _ in range(1 + rounds):
        for batch in batches:
            training.step([tensor.clone() for tensor in batch])


def record_shapes(network: CorpusNetwork, path: Path, title: str,
                  batches: Callable[[Training], Iterable[list[torch.Tensor]]]) -> None:
    """Record steps at GPU scale, after one that makes the optimizers' state.

    Args:
        network: what is trained.
        path: of the trace.
        title: the trace's name.
        batches: returns the steps' batches, each made when the step before it is over.
    """
    from shape_recorder import DeviceFigures, ShapeRecorder

    torch.set_default_device("meta")
    training = Training(network, "gpu")
    with ShapeRecorder(path, title, DeviceFigures()) as recorder:
        with recorder.paused():
            training.step(next(iter(batches(training))))
            gc.collect()
            gc.disable()
        recorder.name_storages(training.model.parameters(), "parameter")
        recorder.name_storages(training.model.buffers(), "buffer")
        recorder.name_storages((p.grad for p in training.model.parameters() if p.grad is not None),
                               "gradient")
        for optimizer in training.optimizers:
            for state in optimizer.state.values():
                recorder.name_storages((v for v in state.values() if torch.is_tensor(v)),
                                       "optimizer_state")
        for batch in batches(training):
            training.step(batch, recorder.optimizing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(CORPUS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--gpu", metavar="FILE", type=Path)
    parser.add_argument("--marks", action="store_true")
    parsed = parser.parse_args()
    if parsed.marks:
        print(len(Training(CORPUS[parsed.name], "cpu").optimizers) * CORPUS[parsed.name].steps)
    elif parsed.gpu:
        network = CORPUS[parsed.name]
        record_shapes(network, parsed.gpu, f"gpu_{parsed.name}",
                      lambda training: map(training.batch, range(network.steps)))
    else:
        train(parsed.name, parsed.rounds)


if __name__ == "__main__":
    main()
