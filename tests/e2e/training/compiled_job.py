"""Trains small models that torch.compile compiles, and prints digests of what came out.

    python compiled_job.py [forgetful]

The blocks have what a replay could get wrong: dropout, running statistics, saved views, an error.
Where they are to be forgetful, a forward graph makes something else of inputs that it was given
before, as only a replay does.
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


class Forgetful:
    """Stands for a graph's code; what it makes has the other sign if its inputs are not new."""

    def __init__(self, run) -> None:
        self.run, self.seen = run, set()
        self.__func__ = getattr(run, "__func__", run)  # the code itself, as a bound method has it

    def __call__(self, inputs):
        key = tuple(each.sum().item() for each in inputs if isinstance(each, torch.Tensor))
        results = self.run(inputs)
        if key in self.seen:
            results[0].neg_()
        self.seen.add(key)
        return results


def make_graphs_forgetful() -> None:
    """Plant something wrong in what the compiler makes from now on."""
    from torch._inductor.output_code import CompiledFxGraph

    call = CompiledFxGraph.__call__

    def call_forgetful(graph, inputs):
        if not isinstance(graph.current_callable, Forgetful):
            graph.current_callable = Forgetful(graph.current_callable)
        return call(graph, inputs)

    CompiledFxGraph.__call__ = call_forgetful


def digest(*tensors) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()[:16]


def main() -> None:
    if sys.argv[1:] == ["forgetful"]:
        make_graphs_forgetful()
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
