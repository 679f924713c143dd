"""Record the trace of a job that only has shapes: meta tensors, with costs by a roofline model.

What a GPU job would do is recorded on a machine without one: tensors on the device `meta` stand for
the GPU's. The trace has the format of docs/trace-format.md, as a running job's has.

    figures = DeviceFigures()
    with ShapeRecorder("gpt.jsonl.gz", "gpt", figures) as recorder:
        recorder.name_storages(model.parameters(), "parameter")
        for step in range(3):
            ...
            with recorder.optimizing():
                optimizer.step()

What it cannot know: the memory that kernels use while they run, how many results a data-dependent
operator has (a share of the most there could be is assumed, `nonzero_share`), and values that a
program asks for (it gets False and 0). Attention and dropout are recorded as the fused operators of
a GPU.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

# As in bindings/torch/calls/operator_info.cpp.
FULL_OVERWRITES = {
    "aten::zero_", "aten::fill_.Scalar", "aten::fill_.Tensor", "aten::normal_", "aten::uniform_",
    "aten::random_", "aten::random_.to", "aten::random_.from", "aten::exponential_",
    "aten::log_normal_", "aten::cauchy_", "aten::geometric_", "aten::bernoulli_.float",
    "aten::bernoulli_.Tensor", "aten::copy_"}
HIDDEN_WRITES = {"aten::native_batch_norm": ("running_mean", "running_var", "training")}
WITHOUT_CONTENTS = ("aten::empty", "aten::new_empty")  # by how their names begin
# They read as much as they return, whatever the size of what they read from.
GATHERING = {"aten::embedding", "aten::index.Tensor", "aten::index_select", "aten::gather"}


@dataclass(frozen=True)
class DeviceFigures:
    """What a device does in a nanosecond, and what its work costs beside.

    The defaults lie between what an A100 and an H100 reach in training: 2.4 TB/s, 200 TFLOP/s, and
    3 us for what an operator costs whatever its size. Contents are copied within the device at half
    the bandwidth, as they are read and written.
    """

    bytes_per_ns: float = 2400.0
    flops_per_ns: float = 200_000.0
    operator_ns: float = 3000.0
    host_bytes_per_ns: float = 25.0  # from the CPU's memory
    map_ns: int = 0  # for moving one page; unknown
    nonzero_share: float = 0.125

    def cost_ns(self, moved_bytes: int, flops: int, host_bytes: int) -> int:
        """Return what an operator takes."""
        return int(self.operator_ns + max(moved_bytes / self.bytes_per_ns,
                                          flops / self.flops_per_ns,
                                          host_bytes / self.host_bytes_per_ns))


class TraceLines:
    """The file of a trace: numbers storages and counts lines."""

    def __init__(self, path: str | Path, name: str, figures: DeviceFigures) -> None:
        self._lines: list[str] = []
        self._path = Path(path)
        self._add({"tidepool_trace": 1, "name": name, "device": "cuda", "alignment": 512,
                   "copy_bytes_per_ns": figures.bytes_per_ns / 2,
                   **({"map_ns": figures.map_ns} if figures.map_ns else {})})
        self.storages = 0

    def _add(self, line: dict) -> None:
        self._lines.append(json.dumps(line, separators=(",", ":")))

    def event(self, line: dict) -> None:
        self._add(line)

    def new_storage(self) -> int:
        self.storages += 1
        return self.storages - 1

    def finish(self) -> None:
        """Write the file."""
        self._add({"end": len(self._lines) - 1})
        text = "".join(f"{line}\n" for line in self._lines).encode()
        compress = self._path.suffix == ".gz"
        self._path.write_bytes(gzip.compress(text, 9, mtime=0) if compress else text)


@dataclass
class _Storage:
    number: int | None = None  # in the trace; None: nothing has been seen of its contents
    bytes: int = 0
    kind: str = "other"


class ShapeRecorder(TorchDispatchMode):
    """Records what is done to meta tensors within its scope. Not thread safe."""

    def __init__(self, path: str | Path, name: str, figures: DeviceFigures) -> None:
        super().__init__()
        self._figures = figures
        self._trace = TraceLines(path, name, figures)
        self._storages: dict[int, _Storage] = {}  # alive; by the address of the StorageImpl
        self._calls: Counter[str] = Counter()  # of this step, by operator
        self._steps = 0
        self._in_optimizer = False
        self._on = True
        self._patches = contextlib.ExitStack()

    def __enter__(self):
        self._patches.enter_context(fused_operators())
        return super().__enter__()

    def __exit__(self, *exception) -> None:
        super().__exit__(*exception)
        self._patches.close()
        self._on = False
        if exception[0] is None:
            self._trace.finish()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing within this scope, which ends with no work under way."""
        self._on = False
        yield
        self._on = True

    def name_storages(self, tensors: Iterable[torch.Tensor], kind: str) -> None:
        """Say what is there from the start; `kind` is one of the format's."""
        for tensor in tensors:
            if tensor.device.type == "meta":
                storage = self._find(tensor.untyped_storage())
                storage.kind = kind
                self._number(storage)

    @contextlib.contextmanager
    def optimizing(self) -> Iterator[None]:
        """Mark the scope of an optimizer's step: what it writes is not made again.

        At its end a step of the job ends.
        """
        self._in_optimizer = True
        yield
        self._in_optimizer = False
        self._steps += 1
        self._calls.clear()
        self._trace.event({"step": self._steps})

    def _find(self, storage: torch.UntypedStorage) -> _Storage:
        key = storage._cdata
        found = self._storages.get(key)
        if found is None:
            found = self._storages[key] = _Storage(bytes=storage.nbytes())
            weakref.finalize(storage, self._die, key).atexit = False
        return found

    def _die(self, key: int) -> None:
        number = self._storages.pop(key).number
        if number is not None and self._on:
            self._trace.event({"release": number})

    def _number(self, storage: _Storage) -> int:
        if storage.number is None:
            storage.number = self._trace.new_storage()
            self._trace.event({"root": storage.number, "bytes": storage.bytes,
                               **({"kind": storage.kind} if storage.kind != "other" else {})})
        return storage.number

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.aten.nonzero.default and args[0].device.type == "meta":
            result = self._assumed_nonzero(args[0])
        elif func is torch.ops.aten._local_scalar_dense.default and args[0].device.type == "meta":
            return args[0].dtype != torch.bool and 0  # nobody knows
        else:
            result = func(*args, **kwargs)
        if self._on:
            self._see(func, args, kwargs, result)
        return result

    def _assumed_nonzero(self, tensor: torch.Tensor) -> torch.Tensor:
        count = max(1, int(tensor.numel() * self._figures.nonzero_share))
        with torch._C._DisableTorchDispatch():
            return torch.empty((count, tensor.dim()), dtype=torch.long, device=tensor.device)

    def _see(self, func, args, kwargs, result) -> None:
        name = func.name()
        inputs, host_bytes = _sorted_tensors((args, kwargs))
        outputs, _ = _sorted_tensors(result)
        written = _written(func, args, kwargs)
        known = {t.untyped_storage()._cdata for t in inputs}
        made = [t for t in outputs if t.untyped_storage()._cdata not in self._storages
                and t.untyped_storage()._cdata not in known]
        if name.startswith(WITHOUT_CONTENTS) or not (made or written):
            for tensor in made:
                self._find(tensor.untyped_storage())
            return
        self._add_call(func, name, inputs, written, made, {
            "ns": self._figures.cost_ns(_moved_bytes(name, inputs, written, outputs),
                                        _flops(func, args, kwargs, result), host_bytes),
            "recordable": not host_bytes and not (
                self._in_optimizer and written and name not in FULL_OVERWRITES)})

    def _add_call(self, func, name, inputs, written, made, facts) -> None:
        writes: dict[int, str] = {}
        fresh = []
        for tensor, side in written:
            storage = self._find(tensor.untyped_storage())
            alone = sum(t.untyped_storage()._cdata == tensor.untyped_storage()._cdata
                        for t in inputs) == 1
            access = "side" if side else "update"
            if name in FULL_OVERWRITES and alone and _covers(tensor):
                access = "overwrite"
            if access == "overwrite" and storage.number is None and storage.kind == "other":
                fresh.append(storage)
            else:
                writes.setdefault(self._number(storage), access)
        storages = [self._find(t.untyped_storage()) for t in inputs]
        reads = [self._number(s) for s in storages if not any(s is f for f in fresh)]
        fresh += [self._find(t.untyped_storage()) for t in _distinct(made)]
        for storage in fresh:
            storage.number = self._trace.new_storage()
        self._calls[name] += 1
        reads = [number for number in dict.fromkeys(reads) if number not in writes]
        line = {"op": name, "ns": facts["ns"], "in": reads,
                "out": [[s.number, s.bytes] for s in fresh],
                "write": [[number, access] for number, access in writes.items()],
                "site": self._calls[name]}
        if torch.Tag.nondeterministic_seeded in func.tags:
            line["draws"] = True
        if not facts["recordable"]:
            line["recordable"] = False
        self._trace.event({key: value for key, value in line.items() if value != []})


def _sorted_tensors(values) -> tuple[list[torch.Tensor], int]:
    """Return the meta tensors among values, and the bytes of the others that are no scalars."""
    tensors = [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
    host = sum(t.numel() * t.element_size() for t in tensors
               if t.device.type != "meta" and t.dim() > 0)
    return [t for t in tensors if t.device.type == "meta"], host


def _written(func, args, kwargs) -> list[tuple[torch.Tensor, bool]]:
    """Return the tensors that are written, each with whether that is a side effect."""
    found = []
    hidden = HIDDEN_WRITES.get(func.name(), ())
    values = {}
    for index, argument in enumerate(func._schema.arguments):
        value = args[index] if index < len(args) else kwargs.get(argument.name)
        values[argument.name] = value
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += [(t, False) for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
    if hidden and values[hidden[-1]]:
        found += [(values[name], True) for name in hidden[:-1] if values[name] is not None]
    return [(tensor, side) for tensor, side in found if tensor.device.type == "meta"]


def _covers(tensor: torch.Tensor) -> bool:
    dense = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
    return tensor.storage_offset() == 0 and dense


def _distinct(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return list({t.untyped_storage()._cdata: t for t in tensors}.values())


def _moved_bytes(name, inputs, written, outputs) -> int:
    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    if name in GATHERING:
        return 2 * size(outputs)
    return size(inputs) + size(t for t, _ in written) + size(outputs if not written else ())


def _flops(func, args, kwargs, result) -> int:
    count = flop_registry.get(func.overloadpacket)
    return int(count(*args, **kwargs, out_val=result)) if count else 0


@contextlib.contextmanager
def fused_operators() -> Iterator[None]:
    """Have attention and dropout take the operators that they take on a GPU."""
    dropout, attention = F.dropout, F.scaled_dot_product_attention

    def fused_dropout(input, p=0.5, training=True, inplace=False):
        if not training or p == 0 or inplace:
            return dropout(input, p, training, inplace)
        return torch.native_dropout(input, p, True)[0]

    def flash_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **rest):
        half = query.dtype in (torch.bfloat16, torch.float16)
        if attn_mask is not None or not half or query.device.type != "meta":
            return attention(query, key, value, attn_mask, dropout_p, is_causal, **rest)
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return flash(query, key, value, dropout_p, is_causal)[0]

    F.dropout, F.scaled_dot_product_attention = fused_dropout, flash_attention
    try:
        yield
    finally:
        F.dropout, F.scaled_dot_product_attention = dropout, attention
