"""Runs each operator of a case several times from the same state, without Tidepool: which vary?

What the dispatcher calls below autograd is seen, on all threads of a backward pass: the names are
those that Tidepool sees. A sample that is too small to vary shows nothing: see grown_cases.py and
wide_cases.py.
"""

from __future__ import annotations

import warnings
from collections import Counter

import torch
import torch.utils._pytree as pytree
from comparison import Case, Counts, same, seeded
from torch.utils._python_dispatch import TorchDispatchMode

# What they give is memory that nobody has written, or is no contents at all.
LEFT_OUT = ("aten::empty", "aten::new_empty", "aten::resize", "aten::set_", "aten::record_stream",
            "aten::_local_scalar_dense", "aten::_cudnn_init_dropout_state")


def copied(value: object) -> object:
    """Return a tensor's copy with the same strides; anything else as it is."""
    if not torch.is_tensor(value):
        return value
    if value.layout != torch.strided or value.is_quantized or value.device.type == "meta":
        return value.clone()
    made = torch.empty(0, dtype=value.dtype, device=value.device)
    return made.set_(value.untyped_storage().clone(), value.storage_offset(), value.size(),
                     value.stride())


def name_of(function, arguments: tuple) -> str:
    """Return an operator's name without overload.

    A transposed convolution is told apart, and a call that reads a tensor without strides.
    """
    name = function._schema.name
    if any(isinstance(each, torch.Tensor) and each.layout != torch.strided for each in arguments):
        return f"{name} (sparse)"
    position = next((k for k, each in enumerate(function._schema.arguments)
                     if each.name == "transposed"), None)
    transposed = position is not None and len(arguments) > position and arguments[position]
    return f"{name} (transposed)" if transposed else name


def draws_privately(arguments: object) -> bool:
    return any(isinstance(each, torch.Generator) for each in pytree.tree_leaves(arguments))


class RandomState:
    """The state of all default generators, to go back to."""

    def __init__(self) -> None:
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)


class RepeatRuns(TorchDispatchMode):
    """Counts calls by operator, and those whose runs from one state differ, with which results."""

    def __init__(self, runs: int) -> None:
        super().__init__()
        self.runs = runs
        self.calls: Counter[str] = Counter()
        self.varied: Counter[str] = Counter()
        self.outputs: dict[str, set[int]] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = name_of(function, args)
        if not (function.is_view or name.startswith(LEFT_OUT) or draws_privately((args, kwargs))):
            self.compare(name, function, args, kwargs)
        return function(*args, **kwargs)

    def compare(self, name: str, function, args: tuple, kwargs: dict) -> None:
        """Run an operator on copies of its operands, and count it."""
        state = RandomState()
        found = []
        try:
            for _ in range(self.runs):
                operands = pytree.tree_map(copied, (args, kwargs))
                state.restore()
                result = function(*operands[0], **operands[1])
                found.append([x for x in pytree.tree_leaves((result, operands))
                              if torch.is_tensor(x)])
        except Exception:  # the job's own call says so as well
            return
        finally:
            state.restore()
        self.calls[name] += 1
        differing = {k for other in found[1:]
                     for k, pair in enumerate(zip(found[0], other, strict=True))
                     if not same(*pair)}
        if differing:
            self.varied[name] += 1
            self.outputs.setdefault(name, set()).update(differing)


class Repeater:
    """Runs cases as comparison.Bench does; what it finds is in found()."""

    def __init__(self, runs: int) -> None:
        warnings.filterwarnings("ignore")
        torch.set_num_threads(1)
        self.runs = runs
        self.mode = RepeatRuns(runs)

    def check(self, case: Case, counts: Counts) -> None:
        """Run a case with every operator repeated."""
        try:
            with self.mode:
                seeded(case)
            counts.cases += 1
        except Exception:
            counts.not_here += 1

    def found(self) -> dict:
        """Return the calls of a group by operator, and what varied; the next one starts anew."""
        mode, self.mode = self.mode, RepeatRuns(self.runs)
        return {"calls": mode.calls, "varied": mode.varied,
                "outputs": {name: sorted(which) for name, which in mode.outputs.items()}}
