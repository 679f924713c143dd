"""Runs the job's own operators a second time, to see whether a replay would give the same bits.

Sees the calls of one thread, on plain PyTorch. An operator whose schema says that it writes nothing
and returns fresh tensors runs again on copies of its operands, with the state of the generator put
back, after each of its calls; of each operator's first calls some are run more often, and watched
from inside. What was found, and why an operator is kept, is for a trust file.

Looked for are: results with other bits, layout or values; operands written, by the call or later;
results that share memory with operands, each other or what is kept; tensors read that are no
operands; memory that outlives the results; random numbers; changes of PyTorch's switches, of what
the operator's Python functions reach, and of files.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..hooks import _switches
from ..verify import _fingerprint
from . import _reachable_state
from ._operator_source import OperatorSources
from ._trust_file import Checked

_BURST_RUNS = 2_000  # of each operator, to find what happens once in a thousand calls
_BURST_SECONDS = 2.0  # for them, at most
_WATCHED_CALLS = 8  # of each operator, and of each shape of operands, are watched from inside
_RUNS_ALONE = 3  # in one of which other threads of the job's have to rest
_SHAPES_KEPT = 16
# What Python reports when files are written, or others are talked to.
_EFFECTS = ("_thread.", "os.", "shutil.", "socket.", "subprocess.", "sqlite3.")
_HARMLESS = ("os.listdir", "os.scandir", "os.walk", "os.fwalk")


class Unfit(Exception):
    """Why an operator cannot be replayed."""


@dataclass
class _Operator:
    """What is known of one operator."""

    found: Checked
    functions: list[Callable]
    burst_left: int = _BURST_RUNS
    burst_seconds: float = _BURST_SECONDS
    watched: dict[str, int] = field(default_factory=dict)  # by shapes of operands
    held: list[tuple[object, str]] = field(default_factory=list)  # tensors and their fingerprints


class OperatorCheck:
    """Checks the operators that the thread which starts it calls."""

    def __init__(self, torch, fingerprints: _fingerprint.Fingerprints,
                 library_of: Callable[[str], str]) -> None:
        """Take what returns the path of the library of an operator's kernel, or ""."""
        self._torch = torch
        self._fingerprints = fingerprints
        self._library_of = library_of
        self._sources = OperatorSources(torch)
        self._known = set(torch._C._dispatch_get_all_op_names())  # PyTorch's own
        self._operators: dict[str, _Operator | None] = {}
        self._thread = (os.getpid(), threading.get_ident())
        self._leaves = torch.utils._pytree.tree_leaves
        self._switches = [getattr(torch._C, name.replace("_set_", "_get_", 1))
                          for name, how in _switches.NUMERIC.items() if how == _switches.GETTER
                          and hasattr(torch._C, name.replace("_set_", "_get_", 1))]
        self._effects: list[str] = []
        self._listens = False
        self._on = True

    def start(self) -> None:
        """Check from now on."""
        self._sources.follow()
        sys.addaudithook(self._audit)
        _mode(self._torch, self.call).__enter__()

    def call(self, function, args, kwargs):
        """Run an operator, and again if it is one of the job's."""
        operator = self._operator(function)
        if operator is None or not self._on:
            return function(*args, **kwargs)
        if self._thread != (os.getpid(), threading.get_ident()):
            return function(*args, **kwargs)
        try:
            self._check_held(operator)
        except Unfit as problem:
            operator.found.reason = str(problem)
        if operator.found.reason:
            return function(*args, **kwargs)
        return self._checked(operator, function, args, kwargs)

    def settle(self) -> None:
        """Look again at what earlier calls were given and returned: it may be written late."""
        for operator in filter(None, self._operators.values()):
            try:
                self._check_held(operator)
            except Unfit as problem:
                operator.found.reason = operator.found.reason or str(problem)

    def finish(self) -> dict[str, Checked]:
        """End; return what was found of each operator."""
        self.settle()
        self._on = False
        for name, operator in self._operators.items():
            if operator is not None and not operator.found.reason:
                self._describe(name, operator.found)
        return {name: each.found for name, each in self._operators.items() if each is not None}

    def _describe(self, name: str, found: Checked) -> None:
        """Note what defines an operator, or that it is not known."""
        try:
            found.source, found.digest = self._sources.describe(name, self._library_of(name))
        except Exception as problem:  # of the job's own objects
            found.reason = f"what defines it cannot be looked at ({problem})"
        if not found.reason and not found.digest:
            found.reason = "its library, or the file of its source, is not known"

    def _operator(self, function) -> _Operator | None:
        """Return what is known of an operator of the job's; None of another one."""
        schema = getattr(function, "_schema", None)
        if schema is None:
            return None
        name = function.name()
        if name not in self._operators:
            is_own = name not in self._known and not name.startswith(("aten::", "prim"))
            self._operators[name] = _Operator(
                Checked(_unfit_schema(schema, function, self._torch)),
                self._sources.kernels(name)) if is_own else None
        return self._operators[name]

    # -- one call ----------------------------------------------------------------------------------

    def _checked(self, operator: _Operator, function, args, kwargs):
        torch, found = self._torch, operator.found
        operands = self._tensors((args, kwargs))
        if not all(_is_plain(torch, operand) for operand in operands):
            found.reason = "it takes tensors that are not plain and dense"
            return function(*args, **kwargs)
        before = self._fingerprints.together(operands)
        state = self._state(operator)
        with self._listening():
            result = function(*args, **kwargs)
        try:
            with self._undisturbed():
                self._require_same_state(operator, state)
                if self._fingerprints.together(operands) != before:
                    raise Unfit("it writes an operand that its schema says it only reads")
                self._require_fresh(self._tensors(result), operands)
                self._run_again(operator, function, args, kwargs, result)
        except Unfit as problem:
            found.reason = str(problem)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            found.reason = f"a second run fails: {type(error).__name__}: {error}"[:300]
        return result

    def _run_again(self, operator: _Operator, function, args, kwargs, result) -> None:
        found = operator.found
        expected = self._contents(result)
        shapes = ", ".join(map(_fingerprint.describe, self._tensors((args, kwargs))))
        found.calls += 1
        if shapes not in found.shapes and len(found.shapes) < _SHAPES_KEPT:
            found.shapes.append(shapes)
        copied = _Copies(self._torch)
        second = self._run(operator, function, copied, args, kwargs, expected)
        operator.held = [(tensor, self._fingerprints.of(tensor))
                         for tensor in (*copied.tensors, *self._tensors(second))]
        operator.watched.setdefault(shapes, 0)
        operator.watched[shapes] += 1
        if operator.watched[shapes] <= _WATCHED_CALLS:
            self._require_alone(operator, function, args, kwargs)
            self._run_watched(operator, function, args, kwargs, expected)
        if operator.watched[shapes] == 1:
            self._burst(operator, function, args, kwargs, expected)

    def _run(self, operator: _Operator, function, copied: _Copies, args, kwargs, expected):
        """Run an operator on copies of its operands; return its result."""
        arguments = copied.of((args, kwargs))
        before = self._fingerprints.together(copied.tensors)
        state = self._state(operator)
        with self._listening():
            result = function(*arguments[0], **arguments[1])
        operator.found.runs += 1
        self._require_same_state(operator, state)
        if self._fingerprints.together(copied.tensors) != before:
            raise Unfit("it writes an operand that its schema says it only reads")
        if self._contents(result) != expected:
            raise Unfit("run again on the same operands, it gives something else")
        return result

    def _require_alone(self, operator: _Operator, function, args, kwargs) -> None:
        """Refuse an operator during each of whose runs other threads of Python's work.

        A replay that waits for another thread, which waits for that replay's end, would hang.
        """
        arguments = _Copies(self._torch).of((args, kwargs))
        for _ in range(_RUNS_ALONE):
            before = _work_of_threads()
            function(*arguments[0], **arguments[1])
            operator.found.runs += 1
            now = _work_of_threads()
            if all(now.get(thread, work) == work for thread, work in before.items()):
                return
        raise Unfit("other threads of Python work while it runs")

    def _run_watched(self, operator: _Operator, function, args, kwargs, expected) -> None:
        """Run an operator once more, and see from inside which tensors it reads and makes."""
        copied = _Copies(self._torch)
        arguments = copied.of((args, kwargs))
        inside = _Inside(self._torch, copied.tensors, self._leaves)
        if operator.functions:
            call = operator.functions[-1]
        else:
            key = self._torch._C.DispatchKeySet(self._torch._C.DispatchKey.CPU)
            call = _redispatching(function, key)
        with inside.mode():
            result = call(*arguments[0], **arguments[1])
        operator.found.runs += 1
        if inside.foreign:
            raise Unfit(f"it reads a tensor that is no operand ({inside.foreign})")
        if self._contents(result) != expected:
            raise Unfit("run again on the same operands, it gives something else")
        inside.note(result)
        del result, arguments, copied, call
        if inside.any_alive():
            gc.collect()
            if inside.any_alive():
                raise Unfit("it keeps memory that it has allocated or returned")

    def _burst(self, operator: _Operator, function, args, kwargs, expected) -> None:
        """Run an operator many times, to find what differs rarely."""
        start = time.monotonic()
        copied = _Copies(self._torch)
        arguments = copied.of((args, kwargs))
        while operator.burst_left > 0 and time.monotonic() - start < operator.burst_seconds:
            operator.burst_left -= 1
            operator.found.runs += 1
            if self._contents(function(*arguments[0], **arguments[1])) != expected:
                raise Unfit("run again on the same operands, it now and then gives something else")
        operator.burst_seconds -= time.monotonic() - start

    # -- what is compared --------------------------------------------------------------------------

    def _tensors(self, tree) -> list:
        return [leaf for leaf in self._leaves(tree) if isinstance(leaf, self._torch.Tensor)]

    def _contents(self, result) -> list:
        """Return bits and layout of all that an operator has returned."""
        contents: list[object] = []
        for leaf in self._leaves(result):
            if not isinstance(leaf, self._torch.Tensor):
                contents.append(repr(leaf))
                continue
            if not _is_plain(self._torch, leaf):
                raise Unfit("it returns a tensor that is not plain and dense")
            contents.append((self._fingerprints.of(leaf), leaf.stride(), leaf.storage_offset(),
                             leaf.untyped_storage().nbytes()))
        return contents

    def _require_fresh(self, results: list, operands: list) -> None:
        taken = {_address(operand) for operand in operands}
        for result in results:
            if _address(result) in taken:
                raise Unfit("its results share memory with its operands or each other")
            if result.numel():
                taken.add(_address(result))

    def _state(self, operator: _Operator) -> tuple:
        torch = self._torch
        reachable = _reachable_state.ReachableState(torch, operator.functions,
                                                    self._fingerprints.of)
        # A denormal number times one is zero where the processor takes denormal numbers for zero.
        switches = [getter() for getter in self._switches] + [
            torch.get_default_dtype(), torch.get_num_threads(), torch.is_autocast_enabled("cpu"),
            torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
            5e-324 * 1.0]
        generator = self._fingerprints.of(torch.default_generator.get_state())
        return switches, generator, reachable.describe()

    def _require_same_state(self, operator: _Operator, before: tuple) -> None:
        if self._effects:
            raise Unfit(f"it starts threads, or does something to files ({self._effects[0]})")
        now = self._state(operator)
        for what, left, right in zip(("changes a switch of PyTorch's", "draws random numbers",
                                      "changes something that it reaches by its names"),
                                     before, now, strict=True):
            if left != right:
                raise Unfit(f"it {what}")

    def _check_held(self, operator: _Operator) -> None:
        held, operator.held = operator.held, []
        with self._undisturbed():
            for tensor, fingerprint in held:
                if self._fingerprints.of(tensor) != fingerprint:
                    raise Unfit("it writes an operand or a result after it has returned")

    # -- while an operator runs --------------------------------------------------------------------

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Put back what a second run draws; it runs as a replay does, without gradients."""
        torch = self._torch
        state = torch.default_generator.get_state()
        try:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                yield
        finally:
            torch.default_generator.set_state(state)

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        self._effects.clear()
        self._listens = True
        try:
            yield
        finally:
            self._listens = False

    def _audit(self, event: str, arguments: tuple) -> None:
        if not self._listens or self._thread[1] != threading.get_ident():
            return
        if arguments and "__pycache__" in str(arguments[0]):
            return  # a module is imported for the first time
        if event == "open":
            _, mode, flags = arguments
            written = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if written or set(mode or "") & set("wax+"):
                self._effects.append("open for writing")
        elif event.startswith(_EFFECTS) and event not in _HARMLESS:
            self._effects.append(event)


class _Copies:
    """Copies of tensors, those of one storage in one; what they show is the same."""

    def __init__(self, torch) -> None:
        self._torch = torch
        self._storages: dict[int, object] = {}
        self.tensors: list = []

    def of(self, tree):
        """Return a tree of arguments with copies for tensors."""
        torch = self._torch
        return torch.utils._pytree.tree_map_only(torch.Tensor, self._copy, tree)

    def _copy(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = storage.clone()
        copy = self._torch.empty(0, dtype=tensor.dtype)
        copy.set_(self._storages[storage._cdata], tensor.storage_offset(), tensor.shape,
                  tensor.stride())
        self.tensors.append(copy)
        return copy


class _Inside:
    """What the operators read and make that run inside of another one."""

    def __init__(self, torch, operands: list, leaves) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        self._torch, self._leaves = torch, leaves
        self._weak = StorageWeakRef
        self._known = {_address(operand) for operand in operands}
        self._made: list = []
        self.foreign = ""  # the operator that read a tensor which is none of those

    def mode(self):
        return _mode(self._torch, self._call)

    def note(self, result) -> None:
        """Note what the operator has returned."""
        for tensor in self._tensors(result):
            self._made.append(self._weak(tensor.untyped_storage()))

    def any_alive(self) -> bool:
        return any(not each.expired() for each in self._made)

    def _call(self, function, args, kwargs):
        is_new = "lift_fresh" in function.name() if hasattr(function, "name") else False
        for tensor in self._tensors((args, kwargs)):
            if tensor.numel() and not is_new and _address(tensor) not in self._known:
                self.foreign = self.foreign or str(function)
        result = function(*args, **kwargs)
        for tensor in self._tensors(result):
            if _address(tensor) not in self._known:
                self._known.add(_address(tensor))
                self._made.append(self._weak(tensor.untyped_storage()))
        return result

    def _tensors(self, tree) -> list:
        return [leaf for leaf in self._leaves(tree)
                if isinstance(leaf, self._torch.Tensor) and _is_plain(self._torch, leaf)]


def _redispatching(function, key):
    """Return what runs the kernel of an operator without its being seen itself."""
    return lambda *args, **kwargs: function.redispatch(key, *args, **kwargs)


def _unfit_schema(schema, function, torch) -> str:
    """Return why an operator cannot be replayed by its schema; "" if it can."""
    if any(each.alias_info is not None for each in (*schema.arguments, *schema.returns)):
        return "by its schema it writes, or returns a view of, an operand"
    if torch.Tag.nondeterministic_seeded in function.tags:
        return "it is tagged as drawing random numbers"
    types = {str(each.type) for each in schema.returns if "Tensor" in str(each.type)}
    if not types:
        return "it returns no tensor"
    if not types <= {"Tensor", "Optional[Tensor]", "List[Tensor]"}:
        return "it returns tensors in another way than by themselves or in lists"
    return ""


def _is_plain(torch, tensor) -> bool:
    return (type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
            and tensor.device.type == "cpu" and not tensor.is_quantized and not tensor.is_nested
            and not tensor.is_conj() and not tensor.is_neg())


def _address(tensor) -> int:
    return tensor.untyped_storage()._cdata


def _work_of_threads() -> dict[int, str]:
    """Return, for each other thread of Python's, how often it has waited so far."""
    work = {}
    for thread in threading.enumerate():
        if thread.native_id in (None, threading.get_native_id()):
            continue
        with contextlib.suppress(OSError):
            status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
            work[thread.native_id] = re.findall(r"voluntary_ctxt_switches:\s*(\d+)", status)[0]
    return work


def _mode(torch, call):
    """Return a dispatch mode that hands every operator call to a function."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Checking(TorchDispatchMode):
        supports_higher_order_operators = True

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return call(function, args, kwargs or {})

    return Checking()
