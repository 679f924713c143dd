"""Prints what graphs compute that torch.compile has made of functions with collectives."""

import hashlib

import torch
from torch import distributed
from torch.distributed import _functional_collectives as functional

WIDTH = 64


def summed(x, w):
    """Reduce a buffer of the graph, which a kernel reads by its address after other operators."""
    y = functional.all_reduce(x.sin(), "sum", distributed.group.WORLD)
    return y, y.cos() * ((w @ w).relu() @ w).tanh()


def spread(x, w):
    y = functional.broadcast(x.sin(), 0, distributed.group.WORLD)
    return y, y.cos() * ((w @ w).relu() @ w).tanh()


def main() -> None:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    x, w = torch.randn(WIDTH, WIDTH).sin(), torch.randn(WIDTH, WIDTH).cos()
    for function in (summed, spread):
        for result in torch.compile(function, fullgraph=True)(x, w):
            print(hashlib.sha256(result.numpy().tobytes()).hexdigest())


if __name__ == "__main__":
    main()
