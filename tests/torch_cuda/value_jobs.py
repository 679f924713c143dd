"""Trains networks on the stand-in CUDA device with value kernels, and prints what came out.

    python value_jobs.py [OPTIONS] NAME...

One line of JSON on standard output has, by job: for every step, fingerprints of the loss, of
gradients, parameters and buffers, and the random generator's state; how many calls the value
kernels saw; how much work the device was given, in all and within them; its memory; with --list,
which operators were called, and which of these bypassed the value kernels. CUBLAS_WORKSPACE_CONFIG
=:16:8 keeps cuBLAS from taking more than these small networks do.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "support"))

import standin  # noqa: E402

import value_kernels  # isort: skip  # noqa: E402  before torch
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from networks import NETWORKS  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

device = standin.Device()


class Bert(nn.Module):
    """An encoder that guesses masked words, with texts of different lengths."""

    def __init__(self, vocabulary=60, width=32, heads=4, depth=2, length=12, batch=4):
        super().__init__()
        self.length, self.batch_size = length, batch
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1,
                                           activation="gelu", batch_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def batch(self, step, generator):
        text = torch.randint(1, self.words.num_embeddings, (self.batch_size, self.length),
                             generator=generator)
        lengths = torch.randint(2, self.length, (self.batch_size, 1), generator=generator)
        padding = torch.arange(self.length) >= lengths
        masked = torch.rand(text.shape, generator=generator) < 0.2
        return [text.masked_fill(masked, 0), padding, text.masked_fill(~masked | padding, -1)]

    def forward(self, text, padding, targets):
        x = self.words(text) + self.places(torch.arange(self.length))
        x = self.body(self.dropout(self.norm(x)), src_key_padding_mask=padding)
        return F.cross_entropy(self.head(x).flatten(0, 1).float(), targets.flatten(),
                               ignore_index=-1)


def network(name: str, size: str) -> nn.Module:
    """Return a network of the end-to-end tests, or ours."""
    if name == "bert":
        return Bert(**({"vocabulary": 200, "width": 96, "depth": 4, "length": 64, "batch": 16}
                       if size == "budget" else {}))
    return NETWORKS[name].build(size)


# By job: the network, whether cuDNN and mixed precision are on, and the optimizer.
JOBS = {
    "cnn": ("resnet18", True, False, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)),
    "cnn_without_cudnn": ("resnet18", False, False,
                          lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)),
    "unet": ("unet", True, False, lambda p, lr: torch.optim.Adam(p, lr, foreach=True)),
    "gpt": ("gpt", True, False, lambda p, lr: torch.optim.AdamW(p, lr)),
    "gpt_amp": ("gpt", True, True, lambda p, lr: torch.optim.AdamW(p, lr, fused=True)),
    "bert": ("bert", True, False, lambda p, lr: torch.optim.AdamW(p, lr, foreach=False)),
    "lstm": ("bilstm", True, False, lambda p, lr: torch.optim.Adam(p, lr)),
}


class OperatorList(TorchDispatchMode):
    """Notes the operators on CUDA tensors, as they come to Python's dispatch.

    Autograd adds in place where nobody else holds a gradient. Python does, so that a job that is
    listed has other values than one that is not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operators: set[torch._ops.OpOverload] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run an operator and note its name."""
        result = func(*args, **(kwargs or {}))
        if any(isinstance(leaf, torch.Tensor) and leaf.is_cuda
               for leaf in tree_leaves((args, kwargs, result))):
            self.operators.add(func)
        return result

    def bypassing(self, calls: dict[str, int]) -> list[str]:
        """Return operators that value kernels did not see, nor only what they are made of."""
        found = []
        for operator in self.operators:
            name = operator.name()
            is_made_of_others = not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")
            if not (name in calls or operator.is_view or is_made_of_others):
                found.append(name)
        return sorted(found)


def batch_of(model: nn.Module, step: int, data: torch.Generator, changed: bool) -> list:
    """Return a batch on the device, on wish with one bit of its first tensor changed."""
    batch = model.batch(step, data)
    if changed:
        batch[0].view(-1)[:1].view(torch.uint8)[0] ^= 1
    return tree_map(lambda each: each.cuda() if isinstance(each, torch.Tensor) else each, batch)


def bytes_of(tensors: object) -> int:
    """Return the bytes of all CUDA tensors in a tree."""
    return sum(leaf.nbytes for leaf in tree_leaves(tensors)
               if isinstance(leaf, torch.Tensor) and leaf.is_cuda)


def train(name: str, options: argparse.Namespace,
          change: str) -> tuple[list[dict[str, object]], int]:
    """Train a network from a fixed start.

    Returns:
        Fingerprints by step, and the bytes that are there all the time: parameters, gradients,
        buffers, the optimizer's state, inputs.
    """
    kind, cudnn, amp, make_optimizer = JOBS[name]
    torch.backends.cudnn.enabled = cudnn
    torch.manual_seed(0)
    data = torch.Generator().manual_seed(1)
    model = network(kind, options.size).cuda()
    optimizer = make_optimizer(model.parameters(), 2e-3 if change == "rate" else 1e-3)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    generator = torch.cuda.default_generators[0]
    if change == "seed":
        generator.manual_seed(1)
    if change == "offset":
        torch.rand(1, device="cuda")
    steps = []
    for step in range(options.steps):
        batch = batch_of(model, step, data, change == "bit" and step == 1)
        optimizer.zero_grad()
        with torch.device("cuda"), torch.autocast("cuda", torch.float16, enabled=amp):
            loss = model(*batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        steps.append({
            "loss": value_kernels.fingerprint([loss]),
            "gradients": value_kernels.fingerprint(p.grad for p in model.parameters()),
            "parameters": value_kernels.fingerprint(model.parameters()),
            "buffers": value_kernels.fingerprint(model.buffers()),
            "random": [generator.initial_seed(), generator.get_offset()],
        })
    fixed = bytes_of([list(model.parameters()), [p.grad for p in model.parameters()],
                      list(model.buffers()), list(optimizer.state.values()), batch])
    return steps, fixed


def work() -> dict[str, int]:
    """Return how many operations the device was given, by kind."""
    return {kind: device.calls(kind) for kind in ("launch", "copy", "fill")}


def run(wanted: str, options: argparse.Namespace,
        kernels: value_kernels.ValueKernels) -> dict[str, object]:
    """Run a job; return its fingerprints, and what it called."""
    name, _, change = wanted.partition(":")
    planted = kernels.planted_happened()
    if change.startswith("stale="):
        kernels.plant_stale_read(int(change.removeprefix("stale=")))
    if change.startswith("lost="):
        kernels.plant_lost_write(int(change.removeprefix("lost=")))
    given, within = sum(work().values()), kernels.operations()
    calls_before = sum(kernels.calls().values())
    called = OperatorList()
    torch.cuda.reset_peak_memory_stats()
    with called if options.list else nullcontext():
        steps, fixed = train(name, options, change)
    torch.cuda.synchronize()
    calls = kernels.calls()
    return {"steps": steps, "called": sorted(operator.name() for operator in called.operators),
            "bypassing": called.bypassing(calls),
            "calls": sum(calls.values()) - calls_before,
            "operations": sum(work().values()) - given,
            "operations_within": kernels.operations() - within,
            "planted": kernels.planted_happened() - planted,
            "allocated_peak": torch.cuda.max_memory_allocated(), "fixed": fixed}


def tidepool_says() -> dict[str, object]:
    """Return what Tidepool did on the device, if it is attached."""
    tidepool = sys.modules.get("tidepool")
    if tidepool is None:
        return {}
    return tidepool.stats()["devices"].get("cuda:0", {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME[:CHANGE]",
                        help="changes: rate, seed, offset, bit, and faults: stale=N, lost=N")
    parser.add_argument("--size", choices=("chaos", "budget"), default="budget")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--list", action="store_true", help="list the operators that are called")
    parser.add_argument("--watch", action="store_true", help="find races")
    options = parser.parse_args()
    kernels = value_kernels.install()
    torch.zeros(1, device="cuda")
    if options.watch:
        device.watch_allocator()
    kernels.watch(options.watch)
    said = {name: run(name, options, kernels) for name in options.names or JOBS}
    print(json.dumps({**said, "tidepool": tidepool_says(), "operators": kernels.calls(),
                      "untreated": kernels.untreated(), "races": device.races(),
                      "misuses": device.misuses(), "used_peak": device.used_peak_bytes()}),
          flush=True)
    # Stock PyTorch may abort where a job ends right after a backward: autograd's thread still asks
    # for Python's lock.
    os._exit(0)


if __name__ == "__main__":
    main()
