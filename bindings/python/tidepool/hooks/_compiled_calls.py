"""Calls of compiled graphs, which are run again like operators.

A graph whose code is understood (_graph_code), and found to be a function of its inputs, is called
through an operator of ours, `tidepool::compiled_graph`, which the plugin records like one of
PyTorch's. Its results can be evicted then; they come back by running the whole graph again.

- What it writes, such as running statistics, is copied before, and the copies are given to it:
  what comes out is copied back. So the operator itself writes nothing.
- The seeds that it draws are drawn before it runs, and handed to it: a replay draws nothing.
- Where it raises, what it had written until then is written, and what it had drawn is drawn, as
  without us: a job may go on with the next batch.
- Where operators draw, too (attention with dropout, on CUDA), the job's call and replays draw all
  from a generator in the state that the default one had; that is left as if it had been drawn from.
  A call in whose middle something else has drawn on its thread, as finalizers may, draws more than
  others of the same sizes: what it makes is kept.
- Results that show the same memory are one result of the operator, and are cut up afterwards.
- Backward graphs are not recorded, because they would keep the activations that they read until
  they end, and free as they go otherwise. What they read is held while they run, on the CPU.

Of other graphs nothing is known; _compiled keeps what they read and make. So it does on CUDA with
what is not recorded: kernels still run there when a call has ended.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import types
import weakref
from collections import Counter
from typing import Any, NamedTuple

from ..job import _plugin
from . import _graph_code
from ._graph_code import Kind

OPERATOR = "tidepool::compiled_graph"
# The number of results has this name in bindings/torch/calls/operator_info.cpp.
SCHEMA = "(int graph, int call, Tensor[] inputs, int[] numbers, int results) -> Tensor[]"
# Inputs that a graph writes are copied twice at each call. Statistics of layers are smaller, caches
# of keys and values larger.
MOST_WRITTEN_BYTES = 1 << 20
NUMBERS = (bool, int, float, complex)
# A mode that only says where what is made lies. Graphs say that themselves.
DEVICE_MODE = "DeviceContext"
# The function that copies inputs of a graph which are not aligned, and calls its code.
ALIGNS_INPUTS = "align_inputs_from_check_idxs."
# The mode under which PyTorch calls a graph for the first time, to see whether custom operators
# return their operands' memory. Graphs that are recorded call no custom operators.
FIRST_CALL_MODE = "_AnalyzeCustomOpInputOutputMode"
MORE_DRAWN = ("what a compiled graph has made cannot be made again: in its middle other code has "
              "drawn from the same random generator")


class Graphs:
    """The graphs of a process, by the objects that the compiler has for them. Thread safe.

    Args:
        device: "cpu" or "cuda": whose graphs may be recorded.
    """

    def __init__(self, plugin: _plugin.Plugin, torch, storage_of, device: str = "cpu") -> None:
        self._plugin, self._torch, self._storage_of = plugin, torch, storage_of
        self._device = device
        self._by_owner: dict[int, Graph] = {}
        # Records name graphs by number, and may outlive what the compiler has: generated code is
        # never unloaded in any case.
        self._all: list[Graph] = []
        self._calls: dict[int, _Call] = {}  # the job's, while they run
        self._tokens = itertools.count()
        self._lock = threading.Lock()
        self._library: Any = None
        self._operator: Any = None
        self._drawn = threading.local()

    def of(self, owner) -> Graph:
        """Return the graph of a `CompiledFxGraph`."""
        graph = self._by_owner.get(id(owner))
        if graph is None or graph.owner() is not owner:
            with self._lock:
                graph = self._add(owner)
        return graph

    def report(self) -> dict[str, dict]:
        """Return what the statistics have: how many graphs have run, and why some are kept."""
        kept = Counter(graph.kept for graph in self._all if graph.kept)
        return {"compiled": {"graphs": len(self._all), "kept": dict(kept)}} if self._all else {}

    def call(self, graph: Graph, run, owner, inputs) -> Any:
        """Call a graph; return None if that has to be done without us.

        Args:
            run: what runs `owner`, the object that the compiler has for the graph, on inputs.
        """
        code = graph.code
        if code is None or not graph.as_known():
            return None
        split = self._split(graph, code, inputs)
        if split is None:
            return None
        if graph.kept or not self._may_be_copied(code, inputs):
            if self._device != "cpu":
                return None
            return self._call_beside(code, run, owner, inputs)
        if not code.drawing:
            return self._call_recorded(graph, code, run, owner, inputs, *split)
        with self._plugin.draws(split[0][0].device.index) as draws:
            if draws is None:
                return None
            return self._call_recorded(graph, code, run, owner, inputs, *split, draws)

    def _add(self, owner) -> Graph:
        if self._library is None:
            self._define()
        graph = Graph(len(self._all), owner, self._plugin, self._torch, self._storage_of,
                      self._drawn, self._device)
        self._all.append(graph)
        key = id(owner)
        graph.owner = weakref.ref(owner, lambda _: self._forget(key, graph))
        self._by_owner[key] = graph
        return graph

    def _forget(self, key: int, graph: Graph) -> None:
        if self._by_owner.get(key) is graph:
            del self._by_owner[key]

    def _define(self) -> None:
        namespace, name = OPERATOR.split("::")
        library = self._torch.library.Library(namespace, "FRAGMENT")
        library.define(name + SCHEMA)
        library.impl(name, self._run, self._device.upper())
        library.impl(name, self._torch.library.fallthrough_kernel, "Autograd")
        self._library = library
        self._operator = getattr(getattr(self._torch.ops, namespace), name).default

    def _run(self, number: int, token: int, tensors: list, numbers: list[int],
             results: int) -> list:
        """Run a graph, for the job or a replay: the operator's kernel."""
        graph, call = self._all[number], self._calls.get(token)
        if call and any(type(each) in NUMBERS for each in tensors):
            tensors = call.tensors  # a number that was wrapped in a tensor comes as a number
            self._plugin.note_own_kernel(False)  # nor could a replay know: it is not recorded
        before = getattr(self._drawn, "seeds", None)
        launches = self._device != "cpu" and self._plugin.thread_is_on()
        if launches:  # so that its addresses may be asked for
            self._plugin.thread(0)
        try:
            return graph.run(tensors, numbers, call)
        finally:
            if launches:
                self._plugin.thread(1)
            self._drawn.seeds = before

    def _split(self, graph: Graph, code: _graph_code.GraphCode,
               inputs) -> tuple[list, list[int]] | None:
        """Return the tensors and the numbers among inputs; None if there are others."""
        tensor, parameter = self._torch.Tensor, self._torch.nn.Parameter
        tensors, numbers, places = [], [], []
        for place, value in enumerate(inputs):
            kind = type(value)
            if kind is parameter or kind is tensor:
                tensors.append(value)
            elif kind is int:
                numbers.append(value)
                places.append(place)
            else:
                return None
        if graph.number_places is None:
            graph.number_places = places
        fits = (places == graph.number_places and len(inputs) == code.inputs
                and all(each.device.type == self._device and each.device == tensors[0].device
                        for each in tensors))
        return (tensors, numbers) if fits and tensors and not self._is_watched() else None

    def _is_watched(self) -> bool:
        """Return whether a mode of the job's is to see what the graph calls."""
        stack = self._torch._C
        return (any(type(stack._get_dispatch_stack_at(k)).__name__ != FIRST_CALL_MODE
                    for k in range(stack._len_torch_dispatch_stack()))
                or any(type(stack._get_function_stack_at(k)).__name__ != DEVICE_MODE
                       for k in range(stack._len_torch_function_stack())))

    def _unwatched(self):
        """Return a context in which the mode of a first call does not see our operator."""
        if self._torch._C._len_torch_dispatch_stack() == 0:
            return contextlib.nullcontext()
        return self._torch.utils._python_dispatch._disable_current_modes()

    def _may_be_copied(self, code: _graph_code.GraphCode, inputs) -> bool:
        """Return whether copies may stand for the inputs that a graph writes."""
        if not code.written:
            return True
        written = [inputs[place] for place in code.written]
        found = Counter(map(self._storage_of, inputs))
        return (sum(value.nbytes for value in written) <= MOST_WRITTEN_BYTES
                and all(value.is_contiguous() and found[self._storage_of(value)] == 1
                        for value in written))

    def _call_beside(self, code: _graph_code.GraphCode, run, owner, inputs):
        plugin, storage_of = self._plugin, self._storage_of
        storages = [storage_of(value) for value in inputs]
        with plugin.beside(storages):
            for place in code.written:
                plugin.written(storages[place])
            results = run(owner, inputs)
        plugin.made_by_graph([storage_of(value) for value in results])
        return results

    def _call_recorded(self, graph: Graph, code: _graph_code.GraphCode, run, owner, inputs,
                       tensors: list, numbers: list[int], draws: _plugin.Draws | None = None):
        values = list(inputs)
        for place in code.written:
            copy = values[place].clone()
            # It is lost when the input is written and the call ends: results need it for longer.
            self._plugin.gives_up(self._storage_of(copy))
            tensors[graph.tensor_place(place)] = copy
        device = tensors[0].device
        random = self._random_state(device) if code.seeds else None
        drawn = [graph.draw(seeds, device) for seeds in code.seeds]
        tensors += drawn
        if isinstance(inputs, list):
            inputs.clear()
        numbers += draws.state if draws else []
        call, token = _Call(run, owner, tensors, [], draws, [], drawn), next(self._tokens)
        self._calls[token] = call
        try:
            with self._plugin.undisturbed(), self._unwatched():
                made = self._operator(graph.number, token, tensors, numbers, graph.made)
        except BaseException:
            for place, new in zip(code.written, call.written, strict=False):
                self._write(values[place], new)
            if random is not None and call.seeds:
                self._generator(device).set_state(random)
                for seeds in code.seeds[:-len(call.seeds)]:
                    graph.draw(seeds, device)
            raise
        finally:
            del self._calls[token]
        for place, new in zip(code.written, made[graph.made - len(code.written):], strict=True):
            self._write(values[place], new)
        return graph.put_together(values, made, call.others)

    def _generator(self, device):
        """Return the generator that generated code draws its seeds from."""
        torch = self._torch
        return (torch.default_generator if device.type == "cpu" else
                torch.cuda.default_generators[device.index])

    def _random_state(self, device):
        """Return the state of that generator; None while it may not be asked."""
        if device.type != "cpu" and self._torch.cuda.is_current_stream_capturing():
            return None
        return self._generator(device).get_state()

    def _write(self, value, new) -> None:
        """Write a tensor as generated code does, which counts no version."""
        torch = self._torch
        # Tensors of inference mode have no version, and operators write them in that mode only.
        scope = (torch.inference_mode() if value.is_inference() else
                 torch.autograd._unsafe_preserve_version_counter(value))
        with scope:
            value.copy_(new)


class _Call(NamedTuple):
    """What the operator's kernel needs for a call of the job's, and tells about it."""

    run: Any
    owner: Any
    tensors: list  # what it is given, with those that hold drawn seeds
    # For each view of fresh memory or of an input its size, stride, and offset from what it is a
    # view of; for what is no tensor the value; for an input nothing. Where the graph has made a
    # copy of an input, because it was not aligned, and returns this or a view of it: what it
    # returns.
    others: list
    draws: _plugin.Draws | None
    written: list  # once the generated code runs: what it is given for the inputs that it writes
    seeds: list  # those that it has yet to take


class Graph:
    """One graph, and what is known of it."""

    def __init__(self, number: int, owner, plugin: _plugin.Plugin, torch, storage_of, drawn,
                 device: str) -> None:
        self.number = number
        self.owner: Any = None
        self.code: _graph_code.GraphCode | None = None
        self.kept = ""  # why it is not recorded
        self.number_places: list[int] | None = None  # of inputs that are numbers
        self.as_known: Any = None
        self._least_drawn: dict[tuple, int] = {}  # how far, by the sizes of what it is given
        self._plugin, self._torch = plugin, torch
        self._storage_of, self._drawn = storage_of, drawn
        self._callable = owner.current_callable
        try:
            self.code = _graph_code.read(owner.source_code, torch, device)
            self.as_known = plugin.known_operators(self.code.operators, self.code.drawing)
            if self.as_known is None:
                raise _graph_code.Unknown("operators that are not trusted")
        except (_graph_code.Unknown, AttributeError) as error:
            self.kept, self.code = str(error) or type(error).__name__, None
            self._callable = None
            return
        self._bases = [k for k, each in enumerate(self.code.results) if each.kind is Kind.FRESH]
        self._others = [k for k, each in enumerate(self.code.results)
                        if each.kind not in (Kind.FRESH, Kind.SAME)]
        self.made = len(self._bases) + len(self.code.written)
        self.kept = self._reason_to_keep(owner, device)
        if self.kept:
            self._callable = None  # it may own memory, such as a CUDA graph's

    def _reason_to_keep(self, owner, device: str) -> str:
        assert self.code is not None
        if (owner.fx_kwargs or {}).get("is_backward"):
            return "backward"
        if self.code.varies:
            return "additions in any order"
        if not self._bases:
            return "no results of its own"
        if device != "cpu" and self._generated() is None:
            return "a wrapper around its code"  # CUDA graphs
        if self.code.seeds and not self._redirect_draws():
            return "draws that cannot be handed to it"
        return ""

    def _redirect_draws(self) -> bool:
        """Have the generated code take the seeds that are handed to it."""
        names = getattr(self._generated(), "__globals__", {})
        aten = names.get("aten")
        if aten is None:
            return False
        if not isinstance(aten, _Aten):
            names["aten"] = _Aten(aten, self._drawn)
        return True

    def _generated(self) -> types.FunctionType | None:
        """Return the generated function, where nothing but what aligns its inputs is around it."""
        code = getattr(self._callable, "__func__", self._callable)
        if getattr(code, "__qualname__", "").startswith(ALIGNS_INPUTS):
            cells = dict(zip(code.__code__.co_freevars, code.__closure__, strict=True))
            code = cells["model"].cell_contents if "model" in cells else None
            code = getattr(code, "__func__", code)
        return code if getattr(code, "__name__", "") == "call" else None

    def draw(self, seeds: _graph_code.Seeds, device):
        """Draw seeds as the generated code does."""
        torch = self._torch
        drawn = torch.empty(seeds.size, dtype=torch.int64, device=device)
        return torch.ops.aten.randint.low_out(seeds.low, seeds.high, list(seeds.size), out=drawn)

    def tensor_place(self, place: int) -> int:
        """Return the place among the tensors of an input."""
        return place - sum(each < place for each in self.number_places or ())

    def run(self, tensors: list, numbers: list[int], call: _Call | None) -> list:
        """Run the generated code; return what it has made, each memory once."""
        code = self.code
        assert code is not None
        count = len(tensors) - len(code.seeds)
        arguments: list = tensors[:count]
        self._drawn.seeds = call.seeds if call else tensors[count:]
        places = self.number_places or []
        for place, value in zip(places, numbers, strict=False):
            arguments.insert(place, value)
        state = numbers[len(places):]
        draws = call.draws if call else None
        if state and draws is None:  # a replay
            draws = _plugin.Draws(tensors[0].device.index, *state)
        for place in code.written:
            arguments[place] = arguments[place].clone()
        written = [arguments[place] for place in code.written]
        given = list(arguments)
        if call:
            call.written.extend(written)
        with self._plugin.drawing(draws) if draws else contextlib.nullcontext():
            results = call.run(call.owner, arguments) if call else self._callable(arguments)
        if draws and not self._draws_as_before(tensors, numbers, draws):
            if call is None:
                raise RuntimeError(MORE_DRAWN)
            self._plugin.note_own_kernel(False)  # so that the call is not recorded
        if call:
            call.others.extend(self._told(k, results, given) for k in self._others)
        return [results[k] for k in self._bases] + written

    def _draws_as_before(self, tensors: list, numbers: list[int], draws: _plugin.Draws) -> bool:
        """Return whether the graph has drawn as far as before, when it was given such sizes."""
        assert draws.until is not None
        given = (*(value.size() for value in tensors), *numbers[:-len(draws.state)])
        drawn = draws.until - draws.offset
        known = self._least_drawn.setdefault(given, drawn)
        self._least_drawn[given] = min(known, drawn)
        return drawn == known

    def _told(self, k: int, results, given: list) -> Any:
        """Return what `_Call.others` has of a result."""
        assert self.code is not None
        each, (kind, place) = results[k], self.code.results[k]
        if kind is Kind.OTHER or not hasattr(each, "stride"):
            return each
        if kind in (Kind.INPUT, Kind.INPUT_VIEW):
            if self._storage_of(each) != self._storage_of(given[place]):
                return each
            if kind is Kind.INPUT:
                return None
        base = given[place] if kind is Kind.INPUT_VIEW else results[self._bases[place]]
        return (tuple(each.size()), each.stride(),
                each.storage_offset() - base.storage_offset())

    def put_together(self, inputs: list, made: list, others: list) -> tuple:
        """Return what the graph returns."""
        assert self.code is not None
        show = self._torch._C._dynamo.guards._reinterpret_tensor
        told = iter(others)
        values: list = []
        for result in self.code.results:
            if result.kind in (Kind.FRESH, Kind.SAME):
                values.append((made if result.kind is Kind.FRESH else values)[result.place])
                continue
            shape = next(told)
            if result.kind is Kind.INPUT:
                values.append(inputs[result.place] if shape is None else shape)
            elif result.kind is Kind.OTHER:
                values.append(shape)
            else:
                base = (inputs if result.kind is Kind.INPUT_VIEW else made)[result.place]
                values.append(show(base, *shape) if isinstance(shape, tuple) else shape)
        return tuple(values)


class _Aten:
    """Stands for `torch.ops.aten` in generated code that draws seeds."""

    def __init__(self, original, drawn) -> None:
        self._original = original
        self.randint = _Randint(original.randint, drawn)

    def __getattr__(self, name: str):
        return getattr(self._original, name)


class _Randint:
    def __init__(self, original, drawn) -> None:
        self._original, self._drawn = original, drawn

    def __getattr__(self, name: str):
        return getattr(self._original, name)

    def low_out(self, low, high, size, *, out):
        """Give the seeds that were handed to this thread, or draw."""
        if handed := getattr(self._drawn, "seeds", None):
            return out.copy_(handed.pop(0))
        return self._original.low_out(low, high, size, out=out)
