"""Trains the models of one library for a few steps each, and says what became of each.

    python train_library_models.py LIBRARY [MODEL...] [--steps 2]

An ordinary loop: AdamW and gradients that are clipped, both on lists of tensors, as on GPUs.
A line of JSON on standard output for each model has digests of losses and parameters. With Tidepool
attached it has the bytes allocated, and roots by reason, before the forward pass of the last step,
after it, and after gradients were clipped; of a request that was refused, what was asked for, how
much of the budget nothing had pinned, and the budget that the error says to try.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import random
import sys
import warnings
from pathlib import Path

import torch
from library_models import LIBRARIES

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from tensor_bytes import bytes_of


def digest(tensors) -> str:
    """Return a hash of tensors' elements."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(bytes_of(tensor))
    return sha.hexdigest()[:16]


def memory() -> dict:
    """Return the bytes allocated and the roots; nothing without Tidepool."""
    tidepool = sys.modules.get("tidepool")
    device = tidepool.stats()["devices"].get("cpu") if tidepool else None
    return device and {"allocated": device["allocated_bytes"], "roots": device["root_bytes"],
                       "evictions": device["evictions"]}


def failure(error: Exception) -> dict:
    """Return what an error says, and of a request that was refused what was not pinned then."""
    said = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    shortage = sys.modules["tidepool"].shortage(error) if "tidepool" in sys.modules else None
    return said if shortage is None else {
        **said, "asked": shortage.asked_bytes,
        "unpinned": shortage.budget_bytes - shortage.pinned_bytes,
        "advised": shortage.budget_to_try_bytes}


def train(build, steps: int) -> dict:
    """Build a model and take steps."""
    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)  # what some models draw their masks from
    model, loss_of = build()
    model.train()
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, foreach=True)
    losses, said = [], {}
    for _ in range(steps):
        optimizer.zero_grad()
        said["before"] = memory()
        loss = loss_of()
        said["forward"] = memory()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0, foreach=True)
        losses.append(loss.detach())
        del loss
        said["backward"] = memory()
        optimizer.step()
    found = {"losses": digest(losses), "parameters": digest([*model.parameters(),
                                                             *model.buffers()])}
    return {**found, **said, "after": memory()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name, build in LIBRARIES[options.library].items():
        if options.models and name not in options.models:
            continue
        gc.collect()
        try:
            said = train(build, options.steps)
        except Exception as error:  # the others' turn comes all the same
            said = failure(error)
        print(json.dumps({"model": name, **said}), flush=True)
    os._exit(0)  # PyTorch may abort where a job ends right after a backward


if __name__ == "__main__":
    main()
