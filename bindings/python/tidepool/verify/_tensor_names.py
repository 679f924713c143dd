"""What an optimizer's tensors are called: by the modules that hold them.

An optimizer knows its parameters by place only. The modules are looked for among all objects that
Python's garbage collector knows; nothing of the job is changed, and no module is kept alive.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

from ._fingerprint import describe


class TensorNames:
    """Names of one optimizer's parameters, and the buffers of the modules that hold them."""

    def __init__(self, torch, optimizer) -> None:
        places = {id(parameter): place for place, (_, _, parameter)
                  in enumerate(parameters_of(optimizer))}
        found = []
        for module in _outermost_modules(torch):
            names = {id(parameter): name for name, parameter in module.named_parameters()}
            held = [places[key] for key in names if key in places]
            if held:
                found.append((min(held), names, module))
        found.sort(key=lambda entry: entry[0])  # by the optimizer's order: equal in every run
        self._modules = [weakref.ref(module) for _, _, module in found]
        self._prefix = len(found) > 1
        self.parameters = [_label(found, *entry) for entry in parameters_of(optimizer)]

    def buffers(self) -> Iterator[tuple[str, object]]:
        """Yield label and contents of each buffer: running statistics and the like."""
        for reference in self._modules:
            module = reference()
            for name, buffer in module.named_buffers() if module is not None else ():
                prefix = f"{type(module).__name__}." if self._prefix else ""
                yield f"{prefix}{name} ({describe(buffer)})", buffer


def parameters_of(optimizer) -> Iterator[tuple[int, int, object]]:
    """Yield group number, place in the group, and parameter."""
    for number, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            yield number, place, parameter


def _label(found: list, group: int, place: int, parameter) -> str:
    for _, names, module in found:
        if id(parameter) in names:
            prefix = f"{type(module).__name__}." if len(found) > 1 else ""
            return f"{prefix}{names[id(parameter)]} ({describe(parameter)})"
    return f"group {group} parameter {place} ({describe(parameter)})"


def _outermost_modules(torch) -> list:
    """Return the modules that are no other module's part."""
    kind = torch.nn.Module  # by type(): a stranger's __class__ may do anything
    modules = [thing for thing in gc.get_objects()
               if issubclass(type(thing), kind) and "_modules" in thing.__dict__]  # not half made
    inner = {id(child) for module in modules for child in module._modules.values()}
    return [module for module in modules if id(module) not in inner]
