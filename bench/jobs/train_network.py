"""Trains one network of the training benchmark, and says how fast and with how much memory.

    python train_network.py NETWORK [--device cuda] [--scale small] [--method checkpoint] [...]

An ordinary training loop that knows nothing of Tidepool; on the CPU of one thread, whose processor
time is measured, so that other programs count little. One line of JSON on standard output has
the ms of each step after the warm-up, losses, a digest of parameters, and bytes: `fixed`
(parameters, gradients, buffers, optimizer's state, batch), peaks allocated and reserved. With
--largest MiB it looks for the largest batch that this much device memory takes instead.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import sys
import time

import saving_methods
import torch
from benchmark_networks import NETWORKS
from tensor_bytes import bytes_of

METHODS = ("plain", "checkpoint", "selective", "save_on_cpu", "compile")
MIB = 1 << 20


class Training:
    """A network with its optimizer and a batch on the host."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.options, self.device = options, options.device
        self.network = NETWORKS[options.network]
        self.model = self.network.build(options.scale).to(self.device).train()
        self.on_gpu = self.device == "cuda"
        self.clock = time.perf_counter if self.on_gpu else time.thread_time
        if self.on_gpu and self.network.images:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.optimizer = self.network.optimizer(self.model, self.device)
        self.forward = saving_methods.apply(options.method, self.model,
                                            self.network.block)
        self.kept: tuple[int, list[torch.Tensor]] | None = None

    def host_batch(self, size: int) -> list[torch.Tensor]:
        """Return a batch; the same one as long as its size stays."""
        if self.kept is None or self.kept[0] != size:
            self.model.batch_size = size
            batch = self.model.batch(0, torch.Generator().manual_seed(size))
            self.kept = size, [each.pin_memory() for each in batch] if self.on_gpu else batch
        return self.kept[1]

    def synchronize(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()

    def step(self, size: int) -> tuple[float, torch.Tensor]:
        """Take a step; return its ms and the loss."""
        batch = self.host_batch(size)
        self.synchronize()
        start = self.clock()
        batch = [each.to(self.device, non_blocking=True) for each in batch]
        self.optimizer.zero_grad()
        # On the CPU only what is frozen in bfloat16 needs it.
        mixed = self.on_gpu or self.options.network == "llama_lora"
        with torch.autocast(self.device, torch.bfloat16, enabled=mixed), \
                saving_methods.around_forward(self.options.method, self.device):
            loss = self.forward(*batch)
        loss.backward()
        self.optimizer.step()
        self.synchronize()
        return 1e3 * (self.clock() - start), loss.detach()

    def fixed_bytes(self, size: int) -> int:
        """Return the bytes that no schedule can do without."""
        state = [each for entry in self.optimizer.state.values() for each in entry.values()]
        kept = [*self.model.parameters(), *(p.grad for p in self.model.parameters()),
                *self.model.buffers(), *state, *self.host_batch(size)]
        found = sum(each.nbytes for each in kept if isinstance(each, torch.Tensor))
        if self.on_gpu:
            before = torch.cuda.memory_allocated()
            torch._C._cuda_clearCublasWorkspaces()
            found += before - torch.cuda.memory_allocated()
        return found


def digest(tensors) -> str:
    """Return a hash of tensors' elements."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(bytes_of(tensor))
    return sha.hexdigest()[:16]


def measure(training: Training, size: int, warm: int, steps: int) -> dict:
    """Train with a batch of this size."""
    losses, times = [], []
    for number in range(warm + steps):
        took, loss = training.step(size)
        losses.append(loss)
        if number >= warm:
            times.append(took)
    found = {"ms": times, "losses": digest(losses), "items": size * items_in(training),
             "parameters": digest([*training.model.parameters(), *training.model.buffers()])}
    if training.on_gpu:
        found |= {"allocated_peak": torch.cuda.max_memory_allocated(),
                  "reserved_peak": torch.cuda.max_memory_reserved()}
    return {**found, "batch": size, "fixed": training.fixed_bytes(size)}


def items_in(training: Training) -> int:
    """Return how many items one example has."""
    return 1 if training.network.images else training.model.length


def fits(training: Training, size: int) -> float | None:
    """Return the ms of a second step with this batch; None if memory does not suffice."""
    try:
        training.step(size)
        return training.step(size)[0]
    except torch.OutOfMemoryError:
        return None
    finally:
        training.optimizer.zero_grad()
        gc.collect()
        if training.on_gpu:
            torch.cuda.empty_cache()


def find_largest(training: Training, cap_bytes: int, first: int, end: float) -> dict:
    """Try batches: larger ones by half until one fails, then between, in steps of an eighth."""
    if training.on_gpu and not tidepool_says():  # else the budget is the cap
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, cap_bytes / whole))
    tried: dict[int, float | None] = {}
    good, bad, size = 0, None, first
    while time.monotonic() < end:
        tried[size] = fits(training, size)
        if tried[size] is None:
            bad = size
        else:
            good = size
        if bad is not None and bad - good <= max(1, good // 8):
            break
        size = (good + bad) // 2 if bad is not None else size + max(1, size // 2)
        if size == 0:
            break
    return {"tried": sorted(tried.items()), "largest": good,
            "items": items_in(training), "complete": bad is not None}


def tidepool_says() -> dict:
    """Return Tidepool's statistics of the device, if it is attached."""
    tidepool = sys.modules.get("tidepool")
    devices = tidepool.stats()["devices"] if tidepool else {}
    return devices.get("cuda:0") or devices.get("cpu") or {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--scale", choices=("full", "medium", "small"), default="full")
    parser.add_argument("--method", choices=METHODS, default="plain")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--warm", type=int, default=2, help="steps before those that count")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--largest", type=float, metavar="MIB",
                        help="look for the largest batch in this much memory")
    parser.add_argument("--seconds", type=float, default=150, help="of that search")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    if options.device == "cpu":
        torch.set_num_threads(1)
    training = Training(options)
    batch = options.batch or training.network.batch_size(options.scale)
    if options.largest:
        found = find_largest(training, int(options.largest * MIB), batch,
                             time.monotonic() + options.seconds)
    else:
        found = measure(training, batch, options.warm, options.steps)
    print(json.dumps({**found, "tidepool": tidepool_says()}), flush=True)
    os._exit(0)  # PyTorch may abort where a job ends right after a backward


if __name__ == "__main__":
    main()
