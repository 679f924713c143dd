"""PyTorch's operator database as cases: each sample forward and backward, and in other ways."""

import itertools
from collections.abc import Callable, Iterator

import torch
import torch.utils._pytree as pytree
from comparison import Case, evictable, gapped, gradients

# Their results are memory that nobody has written.
UNINITIALISED = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided",
                 "empty_permuted"}  # fmt: skip
MOST_IN_TURN = 5  # operands of a sample
ALL_TYPES = ("float32", "bfloat16", "float64", "complex64", "int64", "bool")


def groups(full: bool, dtypes: list[str] | None,
           device: str = "cpu") -> Iterator[tuple[str, Callable]]:
    """Yield (name, function that yields its cases) for each operator and type."""
    from torch.testing._internal.common_methods_invocations import op_db

    for operator in op_db:
        if operator.name in UNINITIALISED:
            continue
        for name in dtypes or (ALL_TYPES if full else ALL_TYPES[:1]):
            dtype = getattr(torch, name)
            if dtype in operator.supported_dtypes(device):
                yield (f"{operator.formatted_name} {name}",
                       lambda operator=operator, dtype=dtype: cases(operator, dtype, full,
                                                                    device))


def cases(operator, dtype: torch.dtype, full: bool, device: str) -> Iterator[Case]:
    """Yield the cases of one operator and type: the first two samples, or all in all ways."""
    differentiable = operator.supports_autograd and dtype in operator.supported_backward_dtypes(
        device)
    torch.manual_seed(1)
    samples = operator.sample_inputs(device, dtype, requires_grad=differentiable)
    for number, sample in enumerate(itertools.islice(samples, None if full else 2)):
        ways = [("", forward_and_backward)]
        if full:
            ways += [("gapped", forward_and_backward)]
            if differentiable and operator.supports_gradgrad:
                ways.append(("twice", forward_and_backward))
            if operator.inplace_variant and not sample.broadcasts_input:
                ways.append(("in place", in_place))
            if operator.supports_out:
                ways += [("out", into_outputs), ("out without bytes", into_outputs)]
            yield from operands_in_turn(operator, sample, f"sample {number}")
        for way, function in ways:
            yield Case(f"sample {number} {way}".rstrip(),
                       lambda function=function, sample=sample, way=way: function(
                           operator, sample, way))


def arguments(sample, make: Callable = evictable) -> tuple:
    """Return copies of a sample's input, args and kwargs."""
    return pytree.tree_map(make, (sample.input, sample.args, sample.kwargs))


def operands_in_turn(operator, sample, name: str) -> Iterator[Case]:
    """Yield cases in which further operands have other strides, other types, or are left out.

    Kernels are chosen by them, too. Where the input is bfloat16 the others are float32, as under
    autocast, with up to two of them left out. What an operator refuses is no case.
    """
    others, structure = pytree.tree_flatten((sample.args, sample.kwargs))
    places = [k for k, x in enumerate(others) if torch.is_tensor(x)][:MOST_IN_TURN]
    changed = {f"gapped {k}": {k: gapped} for k in places}
    if torch.is_tensor(sample.input) and sample.input.dtype is torch.bfloat16:
        for count in range(min(3, len(places) + 1)):
            for out in itertools.combinations(places, count):
                text = " ".join(["mixed", *(f"without {k}" for k in out)])
                changed[text] = dict.fromkeys(places, widened) | dict.fromkeys(out, left_out)
    for way, makers in changed.items():
        def run(makers=makers) -> object:
            made = [makers.get(k, evictable)(x) for k, x in enumerate(others)]
            args, kwargs = pytree.tree_unflatten(made, structure)
            result = operator(pytree.tree_map(evictable, sample.input), *args, **kwargs)
            return result, gradients(sample.output_process_fn_grad(result), leaves(sample))

        yield Case(f"{name} {way}", run)


def widened(x: torch.Tensor) -> torch.Tensor:
    return evictable(x.to(torch.float32) if x.is_floating_point() else x)


def left_out(_: object) -> None:
    return None


def leaves(sample) -> list[torch.Tensor]:
    """Return what a sample's gradients are taken by."""
    tensors = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return [x for x in tensors if torch.is_tensor(x) and x.requires_grad]


def forward_and_backward(operator, sample, way: str) -> object:
    """Run an operator; return its results and gradients."""
    inputs, args, kwargs = arguments(sample, gapped if way == "gapped" else evictable)
    result = operator(inputs, *args, **kwargs)
    result = sample.output_process_fn_grad(result)
    return result, gradients(result, leaves(sample), twice=way == "twice")


def in_place(operator, sample, way: str) -> object:
    """Run an operator in place; return what it wrote and gradients."""
    with torch.set_grad_enabled(operator.supports_inplace_autograd):
        inputs, args, kwargs = arguments(sample)
        before = inputs.clone() if torch.is_tensor(inputs) else None  # of an older version
        result = operator.inplace_variant(inputs, *args, **kwargs)
    return result, inputs, before, gradients((result, before), leaves(sample))


def into_outputs(operator, sample, way: str) -> object:
    """Run an operator into tensors that are there already, or such that it gives memory."""
    make = torch.zeros_like if way == "out" else lambda like: like.new_empty(0)
    with torch.no_grad():
        inputs, args, kwargs = arguments(sample)
        result = operator(inputs, *args, **kwargs)
        outputs = pytree.tree_map(make, result)
        operator(inputs, *args, **kwargs, out=outputs)
    return result, outputs
