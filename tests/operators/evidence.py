"""Watches what operators do beside what their schemas say, on plain PyTorch, without Tidepool.

What the dispatcher calls below autograd is seen, overload by overload, as Tidepool sees it. Each
call that is new in kind runs several times on copies of its operands, from one state of the default
generator and in memory whose earlier contents differ; and so do calls made from it: of its in-place
and out forms, and with operands tiled until kernels use several threads.
"""

from __future__ import annotations

import ctypes
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.utils._pytree as pytree
from comparison import Case, Counts, is_plain, same, seeded
from torch.utils._python_dispatch import TorchDispatchMode

# What they give is memory that nobody has written, or they change what a storage is.
LEFT_OUT = ("aten::empty", "aten::new_empty", "aten::resize", "aten::_resize_output", "aten::set_",
            "aten::record_stream", "aten::_pin_memory", "aten::_lazy_clone")
RUNS = 3
THREADS = (2, 4)
THREADED_RUNS = 3
THREADED_TYPES = (torch.float32,)  # sums of integers are the same in any order
MOST_CALLS = 16  # watched, of one overload and type; a call like an earlier one is passed over
MOST_RELATED = 4  # the same for calls that are made from another overload's
MOST_TILED = 2  # the same for calls with several threads, by flags; not for related calls
LONGEST = 1.0  # seconds of processor time that a call made larger may take
MOST_BYTES = 1 << 26  # of a watched call's operands
PARALLEL = 32_768  # elements from which kernels use several threads: at::GRAIN_SIZE
TILED = 3 * PARALLEL  # elements of a call that is made larger
PERTURB = -6  # M_PERTURB of mallopt: new memory is filled with a byte made from the value
WHOLE_NUMBERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
LIBC = ctypes.CDLL(None)


class Unwatched(Exception):
    """A call has operands whose contents this module cannot watch."""


def memory_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a storage's bytes, not copied."""
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def tensors_in(tree: object) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(tree) if torch.is_tensor(x)]


class Copies:
    """Copies of a call's operands, with the same strides, which share storages as those do."""

    def __init__(self, arguments: dict[str, object]) -> None:
        self.storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self.arguments = {name: pytree.tree_map(self.copied, value)
                          for name, value in arguments.items()}

    def copied(self, value: object) -> object:
        if not torch.is_tensor(value):
            return value
        if not is_plain(value) or value._is_zerotensor() or value.device.type != "cpu":
            raise Unwatched
        storage = value.untyped_storage()
        if storage._cdata not in self.storages:
            if storage.nbytes() > MOST_BYTES:
                raise Unwatched
            self.storages[storage._cdata] = storage, storage.clone()
        copy = self.storages[storage._cdata][1]
        made = torch.empty(0, dtype=value.dtype).set_(copy, value.storage_offset(), value.size(),
                                                      value.stride())
        torch._C._set_conj(made, value.is_conj())
        torch._C._set_neg(made, value.is_neg())
        return made


@dataclass
class Run:
    """One run of a call: its operands afterwards, what it gave, and the generator's state."""

    operands: Copies
    results: object
    state: torch.Tensor


class Call:
    """A call of an overload that can be run again and again from its first state."""

    def __init__(self, schema, function: Callable, args: tuple, kwargs: dict) -> None:
        self.schema, self.function = schema, function
        names = [argument.name for argument in schema.arguments]
        self.arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        self.positional = [a.name for a in schema.arguments if not a.kwarg_only]
        self.written = {a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write}
        self.generators = [x for x in pytree.tree_leaves(self.arguments)
                           if isinstance(x, torch.Generator)]
        self.states = [each.get_state() for each in self.generators]
        self.state = torch.get_rng_state()

    @property
    def name(self) -> str:
        overload = self.schema.overload_name
        return f"{self.schema.name}.{overload}" if overload else self.schema.name

    def dtype(self) -> str:
        """Return the type of the first tensor operand, or where there is none, of the result."""
        first = next(iter(tensors_in(self.arguments)), None)
        dtype = first.dtype if first is not None else self.arguments.get("dtype") or torch.float32
        return str(dtype).removeprefix("torch.")

    def kind(self) -> tuple:
        """Return what tells calls apart: types, dimensions, flags; neither sizes nor numbers."""
        def described(x: object) -> object:
            if torch.is_tensor(x):
                return x.dtype, x.dim(), x.numel() > 0, x.is_contiguous(), x.numel() >= PARALLEL
            return type(x) if isinstance(x, (int, float, complex)) and x is not True \
                and x is not False else repr(x)
        return (self.name, *((name, *map(described, pytree.tree_leaves(value)))
                             for name, value in self.arguments.items()))

    def run(self, number: int = 0) -> Run:
        """Run it on copies; memory that it does not write differs by the number of the run."""
        operands = Copies(self.arguments)
        given = dict(operands.arguments)
        args = []
        for name in self.positional:
            if name not in given:
                break
            args.append(given.pop(name))
        self.restore()
        LIBC.mallopt(PERTURB, 0x11 * (number + 1))
        try:
            results = self.function(*args, **given)
        finally:
            LIBC.mallopt(PERTURB, 0)
        return Run(operands, results, torch.get_rng_state())

    def restore(self) -> None:
        """Set all generators to where they were before the call."""
        torch.set_rng_state(self.state)
        for each, state in zip(self.generators, self.states, strict=True):
            each.set_state(state)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether two tensors lie alike in memory and have equal elements, bit for bit."""
    if not (is_plain(one) and is_plain(other)) or one.is_complex() or one.is_neg():
        return same(one, other)
    if (one.dtype, one.shape, one.stride(), one.storage_offset()) != (
            other.dtype, other.shape, other.stride(), other.storage_offset()):
        return False
    whole = WHOLE_NUMBERS[one.element_size()]
    return one.device.type == "meta" or torch.equal(one.view(whole), other.view(whole))


def agree(one: Run, other: Run) -> bool:
    """Tell whether two runs gave and left the same, bit for bit."""
    trees = [(run.results, run.operands.arguments) for run in (one, other)]
    left, right = map(tensors_in, trees)
    numbers = [repr([x for x in pytree.tree_leaves(run.results) if not torch.is_tensor(x)])
               for run in (one, other)]
    return (len(left) == len(right) and all(map(same_bits, left, right))
            and numbers[0] == numbers[1] and torch.equal(one.state, other.state))


def unwritten(nbytes: int, written: list[torch.Tensor]) -> torch.Tensor:
    """Return which bytes of a storage are outside of some tensors' elements."""
    outside = torch.ones(nbytes, dtype=torch.bool)
    for x in written:
        width = x.element_size()
        if x.numel():
            outside.as_strided((*x.shape, width), (*(s * width for s in x.stride()), 1),
                               x.storage_offset() * width).fill_(False)
    return outside


def hidden_writes(call: Call, run: Run) -> Iterator[str]:
    """Yield the arguments that a run changed although the schema does not mark them as written."""
    changed, written = {}, defaultdict(list)
    for name in call.written & run.operands.arguments.keys():
        for x, copy in zip(tensors_in(call.arguments[name]),
                           tensors_in(run.operands.arguments[name]), strict=True):
            written[x.untyped_storage()._cdata].append(x)
            if copy.untyped_storage().nbytes() != x.untyped_storage().nbytes():
                changed[x.untyped_storage()._cdata] = False  # an output that was resized
    for key, (original, copy) in run.operands.storages.items():
        if key not in changed and original.nbytes() != copy.nbytes():
            changed[key] = True
        elif key not in changed and original.nbytes():
            before, after = memory_of(original), memory_of(copy)
            differs = not torch.equal(before, after)
            if differs and key in written:
                outside = unwritten(original.nbytes(), written[key])
                differs = not torch.equal(before[outside], after[outside])
            changed[key] = differs
    for name, value in call.arguments.items():
        after = run.operands.arguments[name]
        plain = [changed.get(x.untyped_storage()._cdata) for x in tensors_in(value)]
        if any(plain):
            yield f"hidden_write({name})"
        elif name not in call.written and not same_operand(value, after):
            yield f"hidden_write({name})"


def same_operand(before: object, after: object) -> bool:
    """Tell whether an operand kept its shape, its strides, and if it is a list, its elements."""
    def described(tree):
        return [(x.size(), x.stride(), x.storage_offset(), x.dtype) if torch.is_tensor(x)
                else repr(x) for x in pytree.tree_leaves(tree)]
    return described(before) == described(after)


def fresh_addresses(call: Call, run: Run) -> list[int]:
    """Return where the storages of the results lie that the schema says are new."""
    several = len(call.schema.returns) > 1
    results = run.results if several else (run.results,)
    found = []
    for declared, result in zip(call.schema.returns, results, strict=False):
        if declared.alias_info is None:
            found += [x.untyped_storage().data_ptr() for x in tensors_in(result)
                      if is_plain(x) and x.untyped_storage().nbytes()]
    return found


def hidden_alias(call: Call, runs: list[Run]) -> bool:
    """Tell whether a result lies in an operand's memory, or in another result's, unannounced."""
    taken = {storage.data_ptr() for _, storage in runs[0].operands.storages.values()}
    found = fresh_addresses(call, runs[0])
    later = {address for run in runs[1:] for address in fresh_addresses(call, run)}
    return bool(taken & set(found) or len(found) > len(set(found)) or set(found) & later)


def tags_of(function: Callable) -> list:
    return getattr(function, "tags", [])


def may_draw(call: Call) -> bool:
    """Tell whether an overload says that it draws random numbers."""
    takes = any("Generator" in str(each.type) for each in call.schema.arguments)
    return takes or torch.Tag.nondeterministic_seeded in tags_of(call.function)


def findings(call: Call, runs: list[Run]) -> set[str]:
    """Return what runs on one thread did beside what the schema says."""
    found = set(hidden_writes(call, runs[0]))
    if hidden_alias(call, runs):
        found.add("hidden_alias")
    if not torch.equal(runs[0].state, call.state) and not may_draw(call):
        found.add("hidden_draw")
    if not all(agree(runs[0], other) for other in runs[1:]):
        found.add("varies")
    return found


def varies_with_threads(call: Call) -> bool:
    """Tell whether runs differ that use several threads, always as many."""
    try:
        for threads in THREADS:
            torch.set_num_threads(threads)
            runs = [call.run(number) for number in range(THREADED_RUNS)]
            if not all(agree(runs[0], other) for other in runs[1:]):
                return True
        return False
    finally:
        torch.set_num_threads(1)


def number_of(value: object) -> object:
    """Return a tensor's first element as a number."""
    return value.reshape(-1)[0].item() if torch.is_tensor(value) and value.numel() else value


class Relatives:
    """Calls made from a call of another overload: in place, into outputs, with numbers, copying."""

    def __init__(self) -> None:
        self.known: dict[str, list] = {}

    def overloads(self, schema) -> list:
        """Return the overloads that are named like one."""
        namespace, base = schema.name.split("::")
        if schema.name not in self.known:
            stem = base.removesuffix("_").removesuffix("_copy").removesuffix("_functional")
            ends = ("_", "_copy", "_functional", "_out")
            names = {base, base + "_", stem, *(stem + end for end in ends)}
            packets = [getattr(getattr(torch.ops, namespace), name, None) for name in sorted(names)]
            self.known[schema.name] = [getattr(packet, overload) for packet in packets if packet
                                       for overload in packet.overloads()]
        return [each for each in self.known[schema.name]
                if each._schema.overload_name != schema.overload_name
                or each._schema.name != schema.name]

    def call(self, overload, call: Call, results: object) -> Call | None:
        """Return a call of an overload with another's arguments; None if they cannot be its."""
        given, outputs = {}, tensors_in(results)
        for argument in overload._schema.arguments:
            if argument.name in call.arguments:
                value = call.arguments[argument.name]
                kind = str(argument.type)
                if kind == "number":
                    value = number_of(value)
                elif kind == "Tensor" and isinstance(value, (int, float, complex)):
                    value = torch.tensor(value)
                given[argument.name] = value
            elif argument.alias_info and argument.alias_info.is_write:
                if "List" in str(argument.type):
                    given[argument.name] = [torch.zeros_like(x) for x in outputs]
                elif outputs:
                    given[argument.name] = torch.zeros_like(outputs.pop(0))
                else:
                    return None
            elif not argument.has_default_value():
                return None
        return Call(overload._schema, overload, (), given)


def tiled(call: Call, times: int) -> Call | None:
    """Return a call with operands so many times as large, if that gives results."""
    def larger(x: object) -> object:
        if not torch.is_tensor(x) or not x.dim() or not is_plain(x):
            return x
        return x.detach().repeat(times, *[1] * (x.dim() - 1))

    if sum(x.numel() for x in tensors_in(call.arguments)) * times > 8 * TILED:
        return None
    large = Call(call.schema, call.function, (), pytree.tree_map(larger, call.arguments))
    return large if results_fit(large) else None


def enlarged(call: Call) -> Call | None:
    """Return a call that is large enough for several threads, if tiling its operands does it.

    By steps: some operators take the square of the size, and would never end.
    """
    largest = max((x.numel() for x in tensors_in(call.arguments)), default=0)
    if largest >= PARALLEL or not largest:
        return call if largest else None
    times, step, seconds = -(-TILED // largest), 1, 0.0
    while True:
        large = tiled(call, step)
        if large is None:
            return None
        if step == times:
            return large
        started = time.thread_time()
        large.run()
        before, seconds = seconds, time.thread_time() - started
        growth = seconds / before if before else 8
        if seconds > LONGEST / 100 and seconds * max(growth, 8) > LONGEST:
            return None
        step = min(step * 8, times)


def results_fit(call: Call) -> bool:
    """Tell whether a call's operands fit together and its results are of a reasonable size."""
    if not isinstance(call.function, torch._ops.OpOverload):
        return True
    try:
        results = call.function(**{name: pytree.tree_map(
            lambda x: x.to("meta") if torch.is_tensor(x) else x, value)
            for name, value in call.arguments.items()})
    except NotImplementedError:
        return True
    except Exception:
        return False
    return sum(x.numel() for x in tensors_in(results)) <= 32 * TILED


class Watch(TorchDispatchMode):
    """Watches the calls made under it; what it noticed is in `noticed`, by overload."""

    def __init__(self) -> None:
        super().__init__()
        self.relatives = Relatives()
        self.kinds: set[tuple] = set()
        self.counts: Counter[tuple] = Counter()  # calls watched, by overload and type
        self.begin()

    def begin(self) -> None:
        """Begin a new account of what is noticed; what was seen before stays known."""
        self.types: dict[str, set[str]] = defaultdict(set)
        self.noticed: dict[str, set[str]] = defaultdict(set)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not (function.is_view or function._schema.name.startswith(LEFT_OUT)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.watch_all(function, args, kwargs)
        return function(*args, **kwargs)

    def watch_all(self, function, args: tuple, kwargs: dict) -> None:
        """Watch a call and those made from it; leave all generators as they are."""
        call = Call(function._schema, function, args, kwargs)
        try:
            first = self.watch(call, MOST_CALLS)
            if first is None:
                return
            for overload in self.relatives.overloads(call.schema):
                name = overload._schema.name
                if overload.is_view or name.startswith(LEFT_OUT):
                    continue
                related = self.relatives.call(overload, call, first.results)
                if related is not None:
                    self.watch(related, MOST_RELATED)
        finally:
            call.restore()

    def watch(self, call: Call, most: int) -> Run | None:
        """Watch a call unless enough like it were; return its first run."""
        kind, counted = call.kind(), (call.name, call.dtype())
        if kind in self.kinds or self.counts[counted] >= most:
            return None
        try:
            first = call.run()
            runs = [first, *(call.run(number) for number in range(1, RUNS))]
        except Exception:  # the job's own call says so as well; a relative may be none
            return None
        self.kinds.add(kind)
        self.counts[counted] += 1
        self.types[call.name].add(call.dtype())
        self.noticed[call.name] |= findings(call, runs)
        if most == MOST_CALLS and "varies" not in self.noticed[call.name]:
            self.watch_threads(call, first)
        return first

    def watch_threads(self, call: Call, first: Run) -> None:
        """Watch a call on several threads, larger where it is too small for them."""
        flags = tuple((name, value) for name, value in call.arguments.items()
                      if isinstance(value, (bool, str)))
        counted = (call.name, call.dtype(), flags)
        dtypes = {x.dtype for x in tensors_in((call.arguments, first.results))}
        if self.counts[counted] >= MOST_TILED or not dtypes & set(THREADED_TYPES):
            return
        try:
            large = enlarged(call)
            if large is not None and varies_with_threads(large):
                self.noticed[call.name].add("varies_with_threads")
            self.counts[counted] += large is not None
        except Exception:  # the operands cannot be tiled
            return


class Watcher:
    """Runs cases as comparison.Bench does; what it noticed is in found()."""

    # In place and into outputs, operators run as relatives of others.
    PASSED_OVER = (" gapped", " in place", " out")
    MOST_SAMPLES = 16

    def __init__(self) -> None:
        warnings.filterwarnings("ignore")
        torch.set_num_threads(1)
        self.mode = Watch()

    def check(self, case: Case, counts: Counts) -> None:
        """Run a case with every operator watched."""
        words = case.name.split()
        if case.name.endswith(self.PASSED_OVER) or (
                words[:1] == ["sample"] and int(words[1]) >= self.MOST_SAMPLES):
            return
        try:
            with self.mode:
                seeded(case)
            counts.cases += 1
        except Exception:
            counts.not_here += 1

    def found(self) -> dict:
        """Return a group's overloads with their types and what was noticed."""
        mode = self.mode
        line = {"types": {name: sorted(seen) for name, seen in mode.types.items()},
                "noticed": {name: sorted(what) for name, what in mode.noticed.items() if what}}
        mode.begin()
        return line
