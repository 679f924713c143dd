"""Moves networks into and out of files and types: whole jobs, not only their steps.

    python checkpoint_job.py FOLDER [VARIANT...]

Prints one line of JSON for each variant: digests of the losses, the parameters and the optimizer's
state. The folder has the checkpoints that `python checkpoint_job.py FOLDER write` has made.
"""

import copy
import json
import sys
from pathlib import Path

import torch
from offload_job import adam, digest, make_model, state_of, train
from torch import nn


def checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def write(folder: Path) -> list[str]:
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = train(model, optimizer)
    torch.save(checkpoint(model, optimizer), folder / "whole.pt")
    return losses


def resume(folder: Path, *, mmap: bool, assign: bool) -> list:
    """Go on from a checkpoint, and write one; return what the job and that file have."""
    with torch.device("meta") if assign else torch.device("cpu"):
        model = make_model()
    saved = torch.load(folder / "whole.pt", mmap=mmap)
    model.load_state_dict(saved["model"], assign=assign)
    if assign:
        model.requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer.load_state_dict(saved["optimizer"])
    del saved
    torch.manual_seed(1)
    losses = train(model, optimizer)
    path = folder / f"again-{mmap}-{assign}.pt"
    torch.save(checkpoint(model, optimizer), path)
    found = [losses, digest(*model.parameters()), digest(*state_of(optimizer))]
    del model, optimizer
    written = torch.load(path, mmap=True)
    found += [digest(*written["model"].values())]
    path.unlink()
    return found


def loaded(folder):
    return resume(folder, mmap=False, assign=False)


def mapped(folder):
    return resume(folder, mmap=True, assign=False)


def assigned(folder):
    return resume(folder, mmap=False, assign=True)


def mapped_and_assigned(folder):
    return resume(folder, mmap=True, assign=True)


def moved(_folder):
    """Types change while nothing trains, as where a network is made for another one."""
    model = make_model().double()
    first = digest(*model.parameters())
    model = copy.deepcopy(model).to(torch.bfloat16)
    second = digest(*model.parameters())
    model = model.to("cpu", torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = train(model, optimizer)
    return first, second, losses, digest(*model.parameters()), digest(*state_of(optimizer))


def kept(folder):
    """Keep the best of what was seen in memory, and return to it."""
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = train(model, optimizer)
    best = copy.deepcopy(model.state_dict())
    losses += train(model, optimizer)
    worse = digest(*model.parameters())
    model.load_state_dict(best)
    return losses, worse, digest(*model.parameters()), adam(foreach=False)


VARIANTS = {each.__name__: each for each in (loaded, mapped, assigned, mapped_and_assigned, moved,
                                             kept)}


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or VARIANTS:
        print(json.dumps({name: (write if name == "write" else VARIANTS[name])(folder)}),
              flush=True)


if __name__ == "__main__":
    main()
