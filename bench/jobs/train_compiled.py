"""Trains networks that torch.compile compiles, whole or block by block, and says what came of it.

Reads requests from standard input, one line of JSON each, as tests/e2e/case_runner.py does:

    {"network": "gpt", "way": "blocks", "steps": 6, "settings": {"budget": "1GiB"} or null}

Each is an ordinary training loop on one thread, in a fork of this process, which has imported the
compiler, but compiled nothing. The answer has the ms of processor time of each step, digests of
losses and parameters, and, with Tidepool attached, the bytes allocated and roots by reason before
and after the forward pass of the last step, the most bytes that were allocated, and what the
statistics say of compiled graphs.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import probed_job
import saving_methods
import torch
import torch._dynamo.convert_frame
import torch._inductor.codegen.cpp
import torch._inductor.compile_fx
from networks.attention import LlamaBlock, VisionTransformer
from networks.basic import Gpt, GptBlock
from networks.vision import Bottleneck
from torch import nn
from train_library_models import digest, memory

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))

from case_runner import serve

# The class, its sizes and batch, the class of what is compiled by itself, and whether the job is
# one in bfloat16. Steps take some tenths of a second, compiling some ten seconds.
NETWORKS = {
    "gpt": (*probed_job.NETWORKS["gpt"], GptBlock, False),
    "vit": (VisionTransformer, {"width": 192, "heads": 6, "depth": 6, "patch": 8, "image": 64,
                                "factor": 4}, 16, nn.TransformerEncoderLayer, False),
    "resnet": (*probed_job.NETWORKS["cnn"], Bottleneck, False),
    "llama": (*probed_job.NETWORKS["lora"], LlamaBlock, True),
    "tiny": (Gpt, {"depth": 2}, 8, GptBlock, False),
}


def compiled(way: str, model: nn.Module, block: type[nn.Module]) -> nn.Module:
    """Return what to call in place of a model; `whole-0.5`: with that activation memory budget."""
    torch._dynamo.config.recompile_limit = 64  # blocks have one code, and several shapes
    if way == "blocks":
        saving_methods.compile_blocks(model, block)
    elif way != "eager":
        _, _, share = way.partition("-")
        return saving_methods.compile_whole(model, float(share or 1))
    return model


def train(network: str, way: str, steps: int) -> dict:
    """Build a network and take steps."""
    torch.manual_seed(0)
    kind, sizes, batch_size, block, mixed = NETWORKS[network]
    model = kind(**sizes, batch=batch_size)
    forward = compiled(way, model, block)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    generator = torch.Generator().manual_seed(0)
    said, losses, times = {}, [], []
    for number in range(steps):
        start = time.process_time()
        batch = model.batch(number, generator)
        optimizer.zero_grad()
        said["before"] = memory()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = forward(*batch)
        said["forward"] = memory()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.process_time() - start))
        losses.append(loss.detach())
        del loss
    return {**said, "after": memory(), "ms": times, "losses": digest(losses),
            "parameters": digest([*model.parameters(), *model.buffers()])}


def statistics() -> dict:
    """Return the peak and what is said of compiled graphs; nothing without Tidepool."""
    tidepool = sys.modules.get("tidepool")
    stats = tidepool.stats() if tidepool else {}
    device = stats.get("devices", {}).get("cpu")
    return {"peak": device["allocated_peak_bytes"], "replayed": device["operators_replayed"],
            "compiled": stats.get("compiled")} if device else {}


def answer(request: dict) -> dict:
    """Do what a request asks, in this process."""
    if request["settings"]:
        import tidepool

        os.environ["TIDEPOOL_PLANNING"] = "wait"  # so that steps are told apart from searches
        tidepool.enable(device="cpu", **request["settings"])
    torch.set_num_threads(1)
    said = train(request["network"], request["way"], request["steps"])
    return {**said, **statistics()}


if __name__ == "__main__":
    serve(answer)
