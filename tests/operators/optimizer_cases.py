"""PyTorch's optimizer database as cases: some steps of each optimizer in each of its ways."""

import copy
from collections.abc import Callable, Iterator

import torch
from comparison import Case

STEPS = 4


def groups(full: bool, dtypes: list[str] | None) -> Iterator[tuple[str, Callable]]:
    """Yield (name, function that yields its cases) for each optimizer and type."""
    from torch.testing._internal.common_optimizers import optim_db

    types = ("float32", "bfloat16", "float64", "complex64") if full else ("float32",)
    for optimizer in optim_db:
        for name in dtypes or types:
            if name == "complex64" and not optimizer.supports_complex:
                continue
            dtype = getattr(torch, name)
            yield (f"{optimizer.name} {name}",
                   lambda optimizer=optimizer, dtype=dtype: cases(optimizer, dtype))


def cases(optimizer, dtype: torch.dtype) -> Iterator[Case]:
    """Yield the cases of one optimizer: each input with each implementation, some with scaling."""
    from torch.testing._internal import common_optimizers

    inputs = common_optimizers._get_optim_inputs_including_global_cliquey_kwargs(
        "cpu", dtype, optimizer)
    for number, one in enumerate(inputs):
        function = differentiable if one.kwargs.get("differentiable") else train
        yield Case(f"{number} {one.desc or 'default'}",
                   lambda one=one, function=function: function(optimizer, dtype, one.kwargs))
    if optimizer.supports_sparse:
        kwargs = optimizer.metadata_for_sparse[0]
        kwargs = kwargs if isinstance(kwargs, dict) else {}
        yield Case("sparse gradients", lambda: train(optimizer, dtype, kwargs, sparse=True))


def state_of(optimizer) -> list:
    """Return an optimizer's state in a fixed order."""
    return [sorted(entry.items(), key=lambda item: item[0])
            for entry in optimizer.state.values()]


def train(optimizer, dtype: torch.dtype, kwargs: dict, sparse: bool = False) -> object:
    """Train a small network; return each step's gradients and parameters, and the state."""
    sparse = sparse or optimizer.only_supports_sparse_grads
    kwargs = copy.deepcopy(kwargs)
    table = torch.nn.Embedding(6, 4, sparse=sparse, dtype=dtype)
    matrix = torch.nn.Parameter(torch.randn(5, 4, dtype=dtype))
    bias = torch.nn.Parameter(torch.zeros(5, dtype=dtype))
    only_matrices = optimizer.name == "Muon"
    trained = [table.weight] if sparse else [table.weight, matrix, bias]
    trained = trained[:2] if only_matrices else trained
    made = optimizer.optim_cls(trained, **kwargs)
    words, kept = torch.tensor([0, 2, 2, 5]), []

    def loss():
        made.zero_grad()
        rows = table(words) if sparse else table.weight[words]  # complex ones have no lookup
        out = torch.nn.functional.linear(rows * rows, matrix, bias)
        error = (out * out.conj()).real.sum() if out.is_complex() else (out * out).sum()
        error.backward()
        return error.detach()

    for _ in range(STEPS):
        if optimizer.step_requires_closure:
            error = made.step(loss)
        else:
            error = loss()
            made.step()
        kept.append((error, [p.grad for p in trained], [p.detach().clone() for p in trained]))
    return kept, state_of(made), torch.get_rng_state()


def differentiable(optimizer, dtype: torch.dtype, kwargs: dict) -> object:
    """Differentiate two steps by parameters and gradients."""
    kwargs = copy.deepcopy(kwargs)
    leaves = [torch.randn(3, 4, dtype=dtype, requires_grad=True) for _ in range(3)]
    parameter = leaves[0].clone()
    made = optimizer.optim_cls([parameter], **kwargs)
    for gradient in leaves[1:]:
        parameter.grad = gradient * 1
        made.step()
    total = parameter.abs().pow(2).sum()
    found = torch.autograd.grad(total, leaves, allow_unused=True)
    return parameter, found, state_of(made)
