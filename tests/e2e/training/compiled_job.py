"""Trains small models that torch.compile compiles, and prints digests of what came out.

The blocks have what a replay could get wrong: dropout, running statistics, saved views, an error.
"""

import hashlib
import sys

import torch
from torch import nn

WIDTH, BATCH = 16, 8


class Block(nn.Module):
    """Compiled by itself, twice with one code."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        left, right = self.first(self.norm(x)).chunk(2, 1)
        return x + self.second(nn.functional.dropout(left.sigmoid() * right, 0.25, self.training))


def train(model, data) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for x in data:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def digest(*tensors) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()[:16]


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *[Block() for _ in range(3)])
    for block in list(model)[1:]:
        block.compile(dynamic=False)
    train(model, [torch.randn(BATCH, WIDTH) for _ in range(3)])
    print(digest(*model.parameters(), *model.buffers(), torch.get_rng_state()))
    with torch.no_grad():
        print(digest(model.eval()(torch.randn(BATCH, WIDTH))))
    sys.stdout.flush()


main()
