"""PyTorch's operator database with larger samples: small ones leave nothing to vary."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator

import operator_cases

# The sizes that most samples are made of, and which the database's modules name so: 5, 10 and 20.
SIZES = {"S": 24, "M": 40, "L": 64}


def grow() -> int:
    """Let the database make larger samples, in this process for good; return how many names."""
    from torch.testing._internal.opinfo import definitions

    names = ["torch.testing._internal.common_methods_invocations",
             *(f"{definitions.__name__}.{each.name}"
               for each in pkgutil.iter_modules(definitions.__path__))]
    grown = 0
    for module in map(importlib.import_module, names):
        for name, size in SIZES.items():
            if isinstance(getattr(module, name, None), int):
                setattr(module, name, size)
                grown += 1
    return grown


def groups(full: bool, dtypes: list[str] | None,
           device: str = "cpu") -> Iterator[tuple[str, Callable]]:
    """Yield the operator database's groups."""
    grow()
    yield from operator_cases.groups(full, dtypes, device)
