"""Trains one network on CUDA and says what came out: the job of `./dev gpu-check`'s stages a and e.

    python train_job.py NETWORK [--size large] [--steps N] [--twice] [--deterministic] [...]

An ordinary training loop that knows nothing of Tidepool. One line of JSON on standard output has
fingerprints of loss, gradients, parameters and buffers by step, the generator's offset, the time of
each step in ms, and bytes: `fixed` (parameters, gradients, buffers, optimizer's state, batch, and
cuBLAS's workspaces), and the peaks of what was allocated and reserved. With --twice `again` has the
steps of a second training from the same start.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from networks import NETWORKS, Network  # noqa: E402
from networks.basic import Lstm  # noqa: E402
from tensor_bytes import bytes_of  # noqa: E402

# Large enough that activations fill a GPU's memory rather than launches its time.
LARGE = {
    "mlp": {"features": 2048, "width": 2048, "depth": 24, "batch": 32768},
    "resnet50": {"width": 64, "image": 224, "batch": 128},
    "gpt": {"vocabulary": 32000, "width": 1024, "heads": 16, "depth": 16, "length": 1024,
            "batch": 8},
}
# Around a gigabyte of activations.
MEDIUM = {
    "mlp": {"features": 1024, "width": 1024, "depth": 16, "batch": 8192},
    "resnet18": {"width": 32, "image": 64, "batch": 128},
    "resnet50": {"width": 32, "image": 64, "batch": 64},
    "densenet": {"growth": 12, "layers": (6, 12, 12), "image": 64, "batch": 64},
    "mobilenet": {"width": 32, "blocks": 12, "image": 64, "batch": 64},
    "unet": {"width": 32, "depth": 4, "image": 128, "batch": 16},
    "gpt": {"vocabulary": 8000, "width": 512, "heads": 8, "depth": 8, "length": 512, "batch": 8},
    "vit": {"width": 384, "heads": 6, "depth": 12, "image": 64, "batch": 64},
    "translation": {"width": 256, "heads": 4, "depth": 6, "length": 128, "batch": 64},
    "cudnn_lstm": {"width": 512, "depth": 3, "length": 128, "batch": 64},
}
AMP = ("resnet50", "gpt")  # at full size
ATTENTION = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
             "math": SDPBackend.MATH, "cudnn": SDPBackend.CUDNN_ATTENTION}


KNOWN = {**NETWORKS, "cudnn_lstm": Network(Lstm, {"width": 64, "length": 16, "batch": 16})}


def fingerprint(tensors) -> str:
    """Return a hash of tensors' types, shapes and elements, in their order."""
    found = hashlib.sha256()
    for tensor in tensors:
        if tensor is None:
            found.update(b"none")
            continue
        found.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(bytes_of(tensor))
    return found.hexdigest()[:16]


class Training:
    """A network in training, from a fixed start."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.options = options
        self.data = torch.Generator().manual_seed(1)
        self.amp = options.amp or options.size == "large" and options.network in AMP
        self.model = self.build().cuda()
        if options.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        if options.compile:
            for block in self.model.blocks:
                block.compile()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=options.fused,
                                           foreach=not options.fused, capturable=options.graph)
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.amp)
        self.called = self.model
        if options.data_parallel:
            self.called = torch.nn.parallel.DistributedDataParallel(self.model, device_ids=[0])
        self.loading = torch.cuda.Stream() if options.side_stream else None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.held: list = []  # what a graph reads
        self.loss: torch.Tensor | None = None

    def build(self) -> torch.nn.Module:
        kind, size = KNOWN[self.options.network], self.options.size
        given = {"large": LARGE, "medium": MEDIUM}.get(size, {}).get(self.options.network, {})
        return kind.kind(**(kind.budget if size == "budget" else given))

    def batch(self, step: int) -> list:
        """Return a batch on the device, loaded on a stream of its own where asked to."""
        host = self.model.batch(step, self.data)
        if self.loading is None:
            return [each.cuda() if isinstance(each, torch.Tensor) else each for each in host]
        with torch.cuda.stream(self.loading):
            batch = [each.pin_memory().to("cuda", non_blocking=True) for each in host]
            batch = [each * 1 for each in batch]  # so that it is no root
        torch.cuda.current_stream().wait_stream(self.loading)
        for each in batch:
            each.record_stream(torch.cuda.current_stream())
        return batch

    def update(self, batch: list) -> torch.Tensor:
        self.optimizer.zero_grad()
        attention = contextlib.nullcontext()
        if self.options.attention:
            attention = sdpa_kernel(ATTENTION[self.options.attention])
        with torch.device("cuda"), attention, \
                torch.autocast("cuda", torch.float16, enabled=self.amp):
            loss = self.called(*batch)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def capture(self, batch: list) -> None:
        """Capture a step, after one on another stream as PyTorch asks for."""
        self.held = batch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.update(self.held)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.update(self.held)

    def step(self, batch: list) -> torch.Tensor:
        if not self.options.graph:
            return self.update(batch)
        if self.graph is None:
            self.capture(batch)
        for held, each in zip(self.held, batch, strict=True):
            held.copy_(each)
        self.graph.replay()
        return self.loss

    def train(self) -> list[dict]:
        """Take the steps; return what each left."""
        said = []
        for number in range(self.options.steps):
            batch = self.batch(number)
            torch.cuda.synchronize()
            start = time.perf_counter()
            loss = self.step(batch)
            torch.cuda.synchronize()
            milliseconds = 1e3 * (time.perf_counter() - start)
            parameters = list(self.model.parameters())
            said.append({"ms": milliseconds, "loss": fingerprint([loss]),
                         "gradients": fingerprint(p.grad for p in parameters),
                         "parameters": fingerprint(parameters),
                         "buffers": fingerprint(self.model.buffers()),
                         "random": torch.cuda.default_generators[0].get_offset()})
        self.held = batch
        return said

    def memory(self) -> dict[str, int]:
        """Return the bytes that the last step needed in any case, and the peaks."""
        state = [each for entry in self.optimizer.state.values() for each in entry.values()]
        kept = [*self.model.parameters(), *(p.grad for p in self.model.parameters()),
                *self.model.buffers(), *state, *self.held]
        peak, before = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
        torch._C._cuda_clearCublasWorkspaces()
        workspaces = before - torch.cuda.memory_allocated()
        return {"fixed": workspaces + sum(each.nbytes for each in kept
                                          if isinstance(each, torch.Tensor) and each.is_cuda),
                "allocated_peak": peak, "reserved_peak": torch.cuda.max_memory_reserved()}


def tidepool_says() -> dict:
    """Return Tidepool's statistics of the device, if it is attached."""
    tidepool = sys.modules.get("tidepool")
    return tidepool.stats()["devices"].get("cuda:0", {}) if tidepool else {}


def parse() -> argparse.Namespace:
    """Return the command line's settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=sorted(KNOWN))
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--size", choices=("chaos", "budget", "medium", "large"), default="large",
                        help="chaos and budget are those of the end-to-end tests")
    parser.add_argument("--twice", action="store_true", help="train again from the same start")
    parser.add_argument("--deterministic", action="store_true",
                        help="use PyTorch's deterministic algorithms")
    parser.add_argument("--amp", action="store_true", help="autocast to float16, and scale")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--fused", action="store_true", help="the optimizer that is one kernel")
    parser.add_argument("--attention", choices=ATTENTION, help="which kernels attention takes")
    parser.add_argument("--side-stream", action="store_true", help="load batches on another stream")
    parser.add_argument("--graph", action="store_true", help="capture the step as a CUDA graph")
    parser.add_argument("--compile", action="store_true", help="compile the network's blocks")
    parser.add_argument("--data-parallel", metavar="BACKEND", help="DDP, of one process")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.deterministic:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.deterministic = True
    if options.data_parallel:
        store = tempfile.NamedTemporaryFile()  # noqa: SIM115  until the end
        torch.distributed.init_process_group(options.data_parallel, rank=0, world_size=1,
                                             init_method=f"file://{store.name}")
    training = Training(options)
    found = {"steps": training.train(), **training.memory()}
    if options.twice:
        del training
        found["again"] = Training(options).train()
    print(json.dumps({**found, "tidepool": tidepool_says()}), flush=True)
    os._exit(0)  # PyTorch may abort where a job ends right after a backward


if __name__ == "__main__":
    main()
