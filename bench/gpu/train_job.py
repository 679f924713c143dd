"""Trains one network on CUDA and says what came out: the job of `./dev gpu-check`'s stage a.

    python train_job.py NETWORK [--steps N] [--smoke] [--deterministic]

An ordinary training loop that knows nothing of Tidepool. One line of JSON on standard output has
fingerprints of loss, gradients, parameters and buffers by step, the generator's offset, the time of
each step in ms, and bytes: `fixed` (parameters, gradients, buffers, optimizer's state, batch, and
cuBLAS's workspaces), and the peaks of what was allocated and reserved.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))

from networks import NETWORKS  # noqa: E402

# Large enough that activations fill a GPU's memory rather than launches its time.
SIZES = {
    "mlp": {"features": 2048, "width": 2048, "depth": 24, "batch": 32768},
    "resnet50": {"width": 64, "image": 224, "batch": 128},
    "gpt": {"vocabulary": 32000, "width": 1024, "heads": 16, "depth": 16, "length": 1024,
            "batch": 8},
}
AMP = ("resnet50", "gpt")


def fingerprint(tensors) -> str:
    """Return a hash of tensors' types, shapes and elements, in their order."""
    found = hashlib.sha256()
    for tensor in tensors:
        if tensor is None:
            found.update(b"none")
            continue
        host = tensor.detach().cpu().contiguous()
        found.update(f"{host.dtype} {tuple(host.shape)}".encode())
        found.update(host.view(-1).view(torch.uint8).numpy().tobytes() if host.numel() else b"")
    return found.hexdigest()[:16]


def train(name: str, steps: int, smoke: bool) -> dict:
    """Train a network from a fixed start."""
    torch.manual_seed(0)
    data = torch.Generator().manual_seed(1)
    kind = NETWORKS[name]
    model = kind.kind(**(kind.budget if smoke else SIZES[name])).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    scaler = torch.amp.GradScaler("cuda", enabled=name in AMP)
    said = []
    for step in range(steps):
        batch = [each.cuda() if isinstance(each, torch.Tensor) else each
                 for each in model.batch(step, data)]
        torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.device("cuda"), torch.autocast("cuda", torch.float16, enabled=name in AMP):
            loss = model(*batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        torch.cuda.synchronize()
        milliseconds = 1e3 * (time.perf_counter() - start)
        said.append({"ms": milliseconds, "loss": fingerprint([loss]),
                     "gradients": fingerprint(p.grad for p in model.parameters()),
                     "parameters": fingerprint(model.parameters()),
                     "buffers": fingerprint(model.buffers()),
                     "random": torch.cuda.default_generators[0].get_offset()})
    state = [each for entry in optimizer.state.values() for each in entry.values()]
    kept = [*model.parameters(), *(p.grad for p in model.parameters()), *model.buffers(), *state,
            *batch]
    peak = torch.cuda.max_memory_allocated()
    before = torch.cuda.memory_allocated()
    torch._C._cuda_clearCublasWorkspaces()
    workspaces = before - torch.cuda.memory_allocated()
    return {"steps": said,
            "fixed": workspaces + sum(each.nbytes for each in kept
                                      if isinstance(each, torch.Tensor) and each.is_cuda),
            "allocated_peak": peak,
            "reserved_peak": torch.cuda.max_memory_reserved()}


def tidepool_says() -> dict:
    """Return Tidepool's statistics of the device, if it is attached."""
    tidepool = sys.modules.get("tidepool")
    return tidepool.stats()["devices"].get("cuda:0", {}) if tidepool else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=sorted(SIZES))
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--smoke", action="store_true", help="small, for a test")
    parser.add_argument("--deterministic", action="store_true",
                        help="use PyTorch's deterministic algorithms")
    options = parser.parse_args()
    if options.deterministic:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.deterministic = True
    found = train(options.network, options.steps, options.smoke)
    print(json.dumps({**found, "tidepool": tidepool_says()}), flush=True)
    os._exit(0)  # PyTorch may abort where a job ends right after a backward


if __name__ == "__main__":
    main()
