"""Calls of every overload that has a kernel for the CPU, with operands made up from its schema.

They reach what the databases do not: list operators, fused ones, legacy overloads. Many calls are
refused by their operator; those count for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from comparison import Case

SHAPES = ((4, 4), (2, 4, 6, 6), (4,), (3, 4, 4), (2, 3, 4, 6, 6))
HOST_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
PLACES = ("index", "indices", "target", "offsets", "lengths", "offset2bag", "bag_size")
FLAGS = ("mask", "condition", "found_inf_mask")
WINDOWS = {"output_size": lambda n: [3] * n, "kernel_size": lambda n: [2] * n,
           "stride": lambda n: [1] * n, "padding": lambda n: [1] * n, "dilation": lambda n: [1] * n}
STRINGS = ("none", "mean", "sum", "floor")


def host_overloads() -> list[str]:
    """Return the names of the overloads of aten that have a kernel of their own for the CPU."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return sorted(name for name in torch._C._dispatch_get_all_op_names()
                  if name.startswith("aten::") and any(has(name, key) for key in HOST_KEYS))


def overload_of(name: str):
    """Return an overload by its name, "aten::add.Tensor"."""
    base, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


class Maker:
    """Makes operands: all tensors of one shape and type, all flags and optional ones alike."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, flag: bool, given: bool) -> None:
        self.shape, self.dtype, self.flag, self.given = shape, dtype, flag, given

    def tensor(self, name: str) -> torch.Tensor:
        if name in PLACES:
            return torch.randint(0, min(self.shape), self.shape[:1])
        if name in FLAGS or name.endswith("mask"):
            return torch.randint(0, 2, self.shape) > 0
        if name.endswith(("step", "steps")):
            return torch.tensor(3.0)
        if name in ("found_inf", "inv_scale", "grad_scale", "lr"):
            return torch.full((1,), 0.25)
        if self.dtype.is_floating_point or self.dtype.is_complex:
            return torch.rand(self.shape, dtype=self.dtype) + 0.25
        return torch.randint(0, 2, self.shape).to(self.dtype)

    def operand(self, argument) -> object:
        """Return a value for an argument of a schema."""
        kind, name = str(argument.type), argument.name
        if kind.startswith("Optional["):
            if not self.given and not name.endswith("dtype"):
                return None
            kind = kind.removeprefix("Optional[").removesuffix("]")
        if kind == "Tensor":
            return self.tensor(name)
        if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
            several = 1 if name == "indices" else 3
            return [self.tensor(name) for _ in range(several)]
        if kind == "number":
            return 2 if self.dtype in (torch.int64, torch.bool) else 0.75
        if kind == "List[number]":
            return [0.75, 2.0, 1.5]
        plain = {"bool": self.flag, "int": 0 if "dim" in name or "reduction" in name else 2,
                 "float": 0.25, "List[float]": [1.5, 0.75], "List[bool]": [True] * 3,
                 "str": STRINGS[len(self.shape) % len(STRINGS)]}
        if kind == "Generator":
            return torch.Generator().manual_seed(1)
        if kind in plain:
            return plain[kind]
        if kind == "List[int]":
            sides = max(1, len(self.shape) - 2)
            return [0] if "dim" in name else WINDOWS.get(name, lambda n: list(self.shape))(sides)
        raise TypeError(f"no value for {name}: {kind}")


def calls(name: str, dtype: torch.dtype) -> Iterator[Case]:
    """Yield calls of an overload."""
    overload = overload_of(name)

    def run(maker: Maker) -> object:
        given = {}
        for argument in overload._schema.arguments:
            kind = str(argument.type)
            if argument.name == "dtype":
                given[argument.name] = dtype
            elif argument.has_default_value() and not (
                    "Tensor" in kind or kind in ("bool", "Optional[bool]")):
                continue
            else:
                given[argument.name] = maker.operand(argument)
        return overload(**given)

    for shape in SHAPES:
        for flag in (False, True):
            for optional in (True, False):
                maker = Maker(shape, dtype, flag, optional)
                yield Case(f"{shape} {flag} {optional}", lambda maker=maker: run(maker))


def groups(full: bool, dtypes: list[str] | None) -> Iterator[tuple[str, Callable]]:
    """Yield each overload as a group, by type."""
    for name in host_overloads():
        for dtype in dtypes or (("float32", "int64", "bool", "complex64") if full
                                else ("float32",)):
            yield (f"{name} {dtype}",
                   lambda name=name, dtype=dtype: calls(name, getattr(torch, dtype)))
