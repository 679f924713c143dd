"""Writes fingerprints of what each operator of the watched steps reads and writes.

Sees the calls of one thread (autograd on the CPU runs on the thread that calls backward) from above
Tidepool's own key, so a run without Tidepool gives the same lines. Pure views and fresh
uninitialised memory are passed over: nothing is read there. Each tensor that is read is written
down with its maker, the watched call that last wrote into its storage: if contents differ where
they are read, it is the maker's result that was kept or restored wrongly. What a call reads is
fingerprinted together, as the call finds it. `_operator_log.py` reads the file.
"""

from __future__ import annotations

import os
import threading

from ._fingerprint import Fingerprints, describe
from ._json_lines import JsonLines

# In-place operators that do not read what they overwrite.
_OVERWRITING = {"fill_", "zero_", "copy_", "normal_", "uniform_", "random_", "bernoulli_",
                "exponential_", "geometric_", "log_normal_", "cauchy_", "eye_"}
_FRESH = ("empty", "new_empty", "resize")  # operators whose names begin so give memory as it is
# Arguments written by operators whose schemas do not say so.
_HIDDEN_WRITES = {"native_batch_norm": ("running_mean", "running_var"),
                  "cudnn_batch_norm": ("running_mean", "running_var"),
                  "miopen_batch_norm": ("running_mean", "running_var")}
_RANDOM = "random number generator"


class OperatorWatch:
    """Watches the thread that starts it."""

    def __init__(self, torch, fingerprints: Fingerprints, log: JsonLines, step_under_way) -> None:
        self._torch = torch
        self._fingerprints = fingerprints
        self._step_under_way = step_under_way
        self._log: JsonLines | None = log
        self._shapes: dict[object, _Shape] = {}
        self._thread = (os.getpid(), threading.get_ident())
        self._leaves = torch.utils._pytree.tree_leaves
        self._calls = 0
        # By the address of a storage. The weak reference keeps the address from being used again.
        self._makers: dict[int, _Maker] = {}
        self._last_draw: tuple[int, int] | None = None
        self._mode = _mode_class(torch)(self.call)

    def start(self) -> None:
        self._mode.__enter__()

    def stop(self) -> None:
        """Let operators pass. The mode stays: above it may be others, which the job must leave."""
        self._log = None
        self._makers.clear()

    def call(self, function, args, kwargs):
        """Run one operator and write down what it read and wrote."""
        if self._log is None or self._thread != (os.getpid(), threading.get_ident()):
            return function(*args, **kwargs)  # a forked child, or another thread
        shape = self._shapes.get(function)
        if shape is None:
            shape = self._shapes[function] = _Shape(function, self._torch.Tag)
        if shape.is_view:
            return function(*args, **kwargs)
        self._calls += 1
        number = self._calls
        read, written = shape.operands(args, kwargs, self._leaves, self._torch.Tensor)
        examined = [] if shape.asks_no_contents else list(read)
        examined += [(name, tensor) for name, tensor in written
                     if not shape.overwrites(name) and not self._is_blank(tensor)]
        reads = self._read(examined)
        if shape.draws:
            generator = kwargs.get("generator") or self._torch.default_generator
            reads.append([_RANDOM, self._fingerprints.of(generator.get_state()), self._last_draw,
                          ""])
            self._last_draw = (number, 0)
        inputs = {_address(tensor) for _, tensor in read}
        try:
            result = function(*args, **kwargs)
        except BaseException:
            self._line(number, shape.name, reads, [])
            raise
        outputs = [t for t in self._leaves(result) if isinstance(t, self._torch.Tensor)]
        changed = [tensor for _, tensor in written]
        for output in outputs:
            if _address(output) in inputs:
                self._pass_on(output, number)
            elif not any(output is tensor for tensor in changed):
                changed.append(output)
        writes = [self._wrote(tensor, number, place, shape.is_fresh)
                  for place, tensor in enumerate(changed)]
        if not shape.is_fresh:  # data loaders ask for memory whenever a batch arrives
            self._line(number, shape.name, reads, writes)
        return result

    def note_fingerprint(self, kind: str, label: str, tensor, fingerprint: str) -> None:
        """Write down a tensor that the recorder read: the last to see what went wrong."""
        if self._log is None:
            return
        self._calls += 1
        maker = self._last_draw if kind == "random" else self._maker(tensor)
        self._line(self._calls, "", [[f"{kind} {label}", fingerprint, maker, ""]], [])

    def _line(self, number: int, name: str, reads: list, writes: list) -> None:
        if self._log is not None and (reads or writes):
            self._log.write({"call": number, "step": self._step_under_way(), "operator": name,
                             "reads": reads, "writes": writes})

    def _read(self, named: list) -> list:
        """Return name, fingerprint, maker and description of tensors that one operator reads."""
        fingerprints = self._fingerprints.together([tensor for _, tensor in named])
        return [[name, fingerprint, self._maker(tensor), describe(tensor)]
                for (name, tensor), fingerprint in zip(named, fingerprints, strict=True)]

    def _wrote(self, tensor, number: int, place: int, is_fresh: bool) -> str | None:
        """Remember who wrote into a storage; return the fingerprint, or None of fresh memory."""
        address = _address(tensor)
        size = tensor.numel() * tensor.element_size()
        if address:
            before = self._makers.get(address)
            blank = size if is_fresh else max(0, (before.blank_bytes if before else 0) - size)
            self._makers[address] = _Maker(tensor, number, place, blank)
        return None if is_fresh else self._fingerprints.of(tensor)

    def _pass_on(self, tensor, number: int) -> None:
        """Remember who returned an alias of what it read, though its schema does not say so."""
        found = self._makers.get(_address(tensor))
        if found:
            found.passed_on = (number,)

    def _maker(self, tensor) -> tuple[int, ...] | None:
        """Return the maker's call, the place among its results, and who passed it on, if any."""
        found = self._makers.get(_address(tensor))
        return (found.call, found.place, *found.passed_on) if found else None

    def _is_blank(self, tensor) -> bool:
        """Return whether parts of a storage may never have been written: they differ anyway."""
        found = self._makers.get(_address(tensor))
        return found is not None and found.blank_bytes > 0


class _Maker:
    """The call that last wrote into a storage, and how much no call has written yet."""

    def __init__(self, tensor, call: int, place: int, blank_bytes: int) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        self.call, self.place, self.blank_bytes = call, place, blank_bytes
        self.passed_on: tuple[int, ...] = ()
        self._alive = StorageWeakRef(tensor.untyped_storage())


class _Shape:
    """What an operator's schema says about its arguments."""

    def __init__(self, function, tags) -> None:
        self._schema = getattr(function, "_schema", None)
        self.name = function.name() if self._schema else str(function)
        self._base = self.name.split("::")[-1].split(".")[0]
        self.is_fresh = self._base.startswith(_FRESH)
        returns = self._schema.returns if self._schema else []
        self.is_view = self._base == "set_" or any(
            r.alias_info and not r.alias_info.is_write for r in returns)
        self.draws = tags.nondeterministic_seeded in getattr(function, "tags", ())
        # `ones_like`, `new_full` and their kin ask their argument for shape and dtype only.
        self.asks_no_contents = (self.is_fresh or self._base.startswith("new_")
                                 or self._base.endswith("_like"))

    def overwrites(self, name: str) -> bool:
        """Return whether the argument is written and not read."""
        arguments = self._schema.arguments if self._schema else []
        return self._base in _OVERWRITING or any(
            argument.name == name and argument.is_out for argument in arguments)

    def operands(self, args, kwargs, leaves, tensor_type) -> tuple[list, list]:
        """Return (name, tensor) of what is only read, and of what is written."""
        if self._schema is None:
            named = [("an argument", leaf, False) for leaf in leaves((args, kwargs))]
        else:
            named = []
            hidden = _HIDDEN_WRITES.get(self._base, ())
            for place, argument in enumerate(self._schema.arguments):
                value = args[place] if place < len(args) else kwargs.get(argument.name)
                info = argument.alias_info
                is_written = (info is not None and info.is_write) or argument.name in hidden
                named += [(argument.name, leaf, is_written) for leaf in leaves(value)]
        tensors = [entry for entry in named if isinstance(entry[1], tensor_type)]
        return ([(name, tensor) for name, tensor, is_written in tensors if not is_written],
                [(name, tensor) for name, tensor, is_written in tensors if is_written])


def _address(tensor) -> int:
    """Return the address of a tensor's storage, or 0 if it has none of its own."""
    try:
        return tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return 0


def _mode_class(torch):
    """Return the class of the dispatch mode; PyTorch is imported only in the job."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        """Hands every operator call to the watch."""

        supports_higher_order_operators = True

        def __init__(self, call) -> None:
            super().__init__()
            self._call = call

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return self._call(function, args, kwargs or {})

    return Watching
