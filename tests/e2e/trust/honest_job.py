"""Trains a network of custom operators, and prints a digest of what came out.

    python honest_job.py [--layers N] [--rows N] [--steps N] [--extension LIBRARY]

With an extension the network has its operator `tidepool_extension::twice` as well, in C++.
"""

import argparse
import hashlib

import honest_operators
import torch
from torch import nn

WIDTH = 128


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.ops.tidepool_extension.twice(x)

    @staticmethod
    def backward(ctx, gradient):
        return torch.ops.tidepool_extension.twice(gradient.contiguous())


class Layer(nn.Module):
    def __init__(self, doubles: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.doubles = doubles

    def forward(self, x):
        normalized, _ = honest_operators.scaled_norm(x, self.weight)
        if self.doubles:
            normalized = Twice.apply(normalized)
        return honest_operators.squash(self.linear(normalized), 0.5)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--extension")
    options = parser.parse_args()
    if options.extension:
        torch.ops.load_library(options.extension)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(Layer(bool(options.extension)) for _ in range(options.layers)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(options.steps):
        loss = (model(torch.randn(options.rows, WIDTH)) - 0.5).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().clone().numpy().tobytes())
    print(f"{loss.item():.9g} {digest.hexdigest()}")


if __name__ == "__main__":
    main()
