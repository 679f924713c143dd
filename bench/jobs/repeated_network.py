"""Trains a network of the end-to-end tests for some steps, the same in every run, and says how.

    python repeated_network.py NETWORK STEPS OUT

One thread, fixed seeds. OUT gets the seconds of each step (processor time), a digest of losses,
parameters, gradients, the optimizer's state and the random numbers to come, and the bytes that no
schedule can do without. Knows nothing of Tidepool.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from networks.basic import Gpt, TreeLstm
from networks.vision import ResNet, UNet

NETWORKS = {
    "resnet50": lambda: ResNet(width=64, image=32, batch=12),
    "gpt": lambda: Gpt(vocabulary=256, width=96, heads=4, depth=6, length=96, batch=16),
    "unet": lambda: UNet(width=16, depth=3, image=64, batch=8),
    "treelstm": lambda: TreeLstm(vocabulary=200, width=96, leaves=128, batch=96),
}


def digest(tensors: list[torch.Tensor]) -> str:
    """Return the SHA-256 of all elements."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).clone().numpy())
    return found.hexdigest()


def train_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer,
               batch: list[torch.Tensor]) -> float:
    """Train on a batch; return the loss."""
    loss = model(*batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def said(model: torch.nn.Module, optimizer: torch.optim.Optimizer, losses: list[float],
         seconds: list[float], batch_bytes: int) -> str:
    """Return what OUT gets."""
    parameters = list(model.parameters())
    gradients = [each.grad for each in parameters if each.grad is not None]
    state = [value for each in parameters for value in optimizer.state[each].values()]
    fixed = sum(each.nbytes for each in [*parameters, *gradients, *state])
    kept = [*parameters, *gradients, *state, *model.buffers(), torch.get_rng_state()]
    return json.dumps({"seconds": seconds, "digest": f"{losses} {digest(kept)}",
                       "fixed_bytes": fixed + batch_bytes})


def main() -> None:
    network, steps, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    gc.disable()  # so that every run frees what it frees at the same places
    model = NETWORKS[network]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(1)
    seconds, losses, batch_bytes = [], [], 0
    for step in range(steps):
        start = time.process_time()
        batch = model.batch(step, data)
        losses.append(train_step(model, optimizer, batch))
        seconds.append(time.process_time() - start)
        batch_bytes = max(batch_bytes, sum(each.nbytes for each in batch))
    out.write_text(said(model, optimizer, losses, seconds, batch_bytes))


if __name__ == "__main__":
    main()
