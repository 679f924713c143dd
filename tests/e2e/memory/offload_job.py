"""Trains networks whose parameters, gradients and optimizer state are most of their memory.

    python offload_job.py FOLDER [VARIANT...]

Prints one line of JSON for each variant: digests of the losses, the parameters and what else the
variant has. Checkpoints are written into the folder.
"""

import hashlib
import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, BLOCKS, STEPS = 256, 6, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*[Block() for _ in range(BLOCKS)])


def digest(*tensors: torch.Tensor) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().clone().float().numpy().tobytes())
    return found.hexdigest()[:16]


def train(model, optimizer, *, accumulate: int = 1, autocast: bool = False, clip: bool = True,
          average: list | None = None, steps: int = STEPS) -> list[str]:
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            x = torch.randn(16, WIDTH)
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = model(x).square().mean()
            loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if average is not None:
            torch._foreach_lerp_(average, [p.detach() for p in model.parameters()], 0.1)
        losses.append(loss.item().hex())
    return losses


def state_of(optimizer) -> list[torch.Tensor]:
    return [value for state in optimizer.state.values() for value in state.values()
            if isinstance(value, torch.Tensor)]


def adam(**options):
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **options)
    losses = train(model, optimizer)
    return losses, digest(*model.parameters()), digest(*state_of(optimizer))


def loop(_folder):
    return adam(foreach=False)


def foreach(_folder):
    return adam(foreach=True)


def fused(_folder):
    return adam(fused=True)


def momentum(_folder):
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    losses = train(model, optimizer, accumulate=2, autocast=True)
    return losses, digest(*model.parameters()), digest(*state_of(optimizer))


def averaged(_folder):
    model = make_model()
    average = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True)
    losses = train(model, optimizer, average=average, clip=False)
    return losses, digest(*model.parameters()), digest(*average)


def resumed(folder):
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = train(model, optimizer)
    path = folder / "checkpoint.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    del model, optimizer
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    saved = torch.load(path, mmap=False)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    del saved
    losses += train(model, optimizer)
    return losses, digest(*model.parameters()), digest(*state_of(optimizer))


VARIANTS = {each.__name__: each for each in (loop, foreach, fused, momentum, averaged, resumed)}


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or VARIANTS:
        print(json.dumps({name: VARIANTS[name](folder)}), flush=True)


if __name__ == "__main__":
    main()
