"""TorchScript's own readers of raw pointers, which run below Python where no dispatcher shows them.

- What saves, copies, freezes or prints a module or a graph reads parameters, attributes and
  constants anywhere inside: all that is evicted is restored before, and nothing is evicted while
  it runs. What folds them into others is not relied upon to read only: how contents were made is
  forgotten as well.
- Nodes of a scripted function that read what it has just computed (`tolist`, `print`, `str`), and
  the fused groups that oneDNN or TorchScript's own fusers make of nodes, are no operators: a call
  of such a function is a region of the plugin's, in which results stay, and its arguments,
  attributes and constants are held. On CUDA, where functions are fused by default, every call is.
  What runs backward through fused groups does so later: it is a region, too, around each such node.
  Where a function forks, other threads run a part of it: then all is restored before. What a method
  of an interface does is not known: such calls are regions, too, and all of a module is held.
- What is loaded may do so in its `__setstate__`, and objects of C++ classes keep what they are
  given there. The lite interpreter has no graphs. These run in a region, and all is restored.
- A static module calls kernels without their operators: so does it, and what it holds stays. Where
  one forks, all is restored before, and what it returns is waited for.
- Methods of C++ classes (`torch.classes`) have no graph, and may do anything with tensors: what
  they are given escapes, as if they had asked for its address, as the object may have kept it.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import weakref

from ._callers import call_as_caller
from ._extensions import handing_out

# Readers of whole modules and graphs, by the class of torch._C that has them.
METHODS = {
    "ScriptModule": ("save", "save_to_buffer", "_save_for_mobile", "_save_to_buffer_for_mobile",
                     "dump", "dump_to_str", "code_with_constants", "__deepcopy__", "__getstate__"),
    "ScriptObject": ("__deepcopy__", "__getstate__"),
    "ScriptFunction": ("save", "save_to_buffer"),
    "ScriptModuleSerializer": ("serialize", "write_files"),  # of torch.package
    "Graph": ("__repr__", "__str__", "str", "_export_onnx", "_pretty_print_onnx"),
    "Node": ("__repr__", "__str__"),
    "Value": ("__repr__", "__str__"),
    "ScriptList": ("__repr__", "__str__"),
    "ScriptDict": ("__repr__", "__str__"),
}
# Those that run code which no graph shows, and loaders.
RUNNING = {"LiteScriptModule": ("__call__", "forward", "run_method")}
LOADERS = re.compile("_?import_ir_module|_load_for_lite_interpreter|_jit_interpret_graph")
# The same among the functions of torch._C: those that fold, save or export.
FUNCTIONS = re.compile("_freeze_module|_jit_pass_.*(frozen|fold|optimize_for|_onnx)|"
                       "_save_(jit_module|mobile_module|parameters)|_pickle_save$")
CALLED = ("ScriptFunction", "ScriptMethod")
# Constructors and static methods of C++ classes, and what sets objects of theirs up.
NATIVE = {"ScriptClass": "__call__", "ScriptClassFunction": "__call__",
          "ScriptObject": "__setstate__"}
# All of TorchScript's operators that are none of the dispatcher's were run on evicted tensors: the
# others that read contents, such as aten::Int, do so by operators.
READING_NODES = ("prim::tolist", "prim::Print", "aten::str", "aten::format", "aten::percentFormat",
                 "aten::save")


def follow_torchscript(plugin, torch, storage_of, device: str) -> None:
    """Wrap TorchScript's readers.

    Args:
        device: whose tensors are evicted, cpu or cuda.
    """
    compiled = torch._C
    keeping, settling, region = plugin.keeping, plugin.settling, plugin.region
    for methods, scopes in ((METHODS, (keeping,)), (RUNNING, (keeping, region))):
        for kind_name, names in methods.items():
            kind = getattr(compiled, kind_name, None)
            for name in names:
                if kind is not None and name in vars(kind):
                    setattr(kind, name, _kept(getattr(kind, name), *scopes))
    for functions, scopes in ((FUNCTIONS, (settling, keeping)), (LOADERS, (keeping, region))):
        for name in list(filter(functions.match, vars(compiled))):
            setattr(compiled, name, _kept(getattr(compiled, name), *scopes))
    for kind_name in CALLED:
        kind = getattr(compiled, kind_name, None)
        if kind is not None:
            kind.__call__ = _called(kind.__call__, plugin, torch, storage_of, device)
    for kind_name, name in NATIVE.items():
        kind = getattr(compiled, kind_name, None)
        if kind is not None:
            setattr(kind, name, handing_out(getattr(kind, name), plugin, torch, storage_of))
    _follow_static_modules(plugin, torch, storage_of)


def _kept(original, *scopes):
    @functools.wraps(original)
    def read(*args, **kwargs):
        with contextlib.ExitStack() as entered:
            for scope in scopes:
                entered.enter_context(scope())
            return call_as_caller(original, *args, **kwargs)

    return read


def _leaves_opening_containers(torch):
    """Return a function that returns all values in others, in TorchScript's own, too."""
    flat, compiled = torch.utils._pytree.tree_leaves, torch._C
    lists, dictionaries = compiled.ScriptList, compiled.ScriptDict

    def leaves(values) -> list:
        found = []
        for each in flat(values):
            if isinstance(each, lists):
                found += leaves(list(each))
            elif isinstance(each, dictionaries):
                found += leaves([value for _, value in each.items()])
            elif (torch.jit._state._get_script_class(type(each)) is not None
                  and hasattr(each, "__dict__")):
                found += leaves(list(vars(each).values()))
            else:
                found.append(each)
        return found

    return leaves


def _called(original, plugin, torch, storage_of, device):
    graphs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
    leaves = _leaves_opening_containers(torch)
    compiled = torch._C
    native = handing_out(original, plugin, torch, storage_of)
    backward = _Backward(plugin, torch, storage_of)
    fused = False

    def may_be_fused() -> bool:
        """Whether a fuser is on, or was at an earlier call: what it has fused stays so."""
        nonlocal fused  # oneDNN's, or TorchScript's own two, which in wheels are off for the CPU
        fused = (fused or compiled._jit_llga_enabled() or compiled._jit_can_fuse_on_cpu_legacy()
                 or (compiled._jit_texpr_fuser_enabled() and compiled._jit_can_fuse_on_cpu())
                 or (device == "cuda" and compiled._jit_can_fuse_on_gpu()))
        return fused

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        graph = graphs.get(self)
        if graph is None:
            try:
                inlined = self.inlined_graph
            except RuntimeError:  # a method of a class in C++
                return native(self, *args, **kwargs)
            graph = graphs[self] = _Graph(inlined, compiled)
        is_fused = may_be_fused()
        if not graph.reads and not is_fused:
            return call_as_caller(original, self, *args, **kwargs)
        operands = leaves((args, kwargs, graph.held(getattr(self, "owner", None))))
        given = backward.nodes_of(operands) if is_fused else None
        whole = plugin.keeping() if graph.forks else contextlib.nullcontext()
        with whole, plugin.region(), plugin.holding(map(storage_of, operands)):
            results = call_as_caller(original, self, *args, **kwargs)
        if given is not None:
            backward.follow(leaves(results), operands, given)
        return results

    return call


class _Backward:
    """Has the backward nodes of scripted functions run in regions, with what they read held.

    That is their gradients, and what they have saved of what the functions were given; the rest of
    what they have saved was made in a region, and stays.
    Thread safe: each thread that runs nodes has its own list of the regions that are open. A node
    that raises leaves one open, which ends when the node runs again on its thread, or when a
    scripted function is called there outside of any backward pass.
    """

    _NODE = "DifferentiableGraphBackward"
    _MARK = "tidepool"
    _MOST = 1000  # nodes that are looked at after a call

    def __init__(self, plugin, torch, storage_of) -> None:
        self._plugin, self._torch, self._storage_of = plugin, torch, storage_of
        self._threads = threading.local()

    def nodes_of(self, values: list) -> set:
        """Return the nodes that have made the tensors among values."""
        nodes = (value.grad_fn for value in values if isinstance(value, self._torch.Tensor))
        return {node for node in nodes if node is not None}

    def follow(self, results: list, operands: list, given: set) -> None:
        """Look for the nodes between what a call has returned and those that it was given."""
        if self._torch._C._current_graph_task_id() == -1:
            self._end_from(0)
        seen, waiting = given, list(self.nodes_of(results))
        while waiting and len(seen) < self._MOST:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            waiting += [each for each, _ in node.next_functions if each is not None]
            if node.name().endswith(self._NODE) and self._MARK not in node.metadata:
                node.metadata[self._MARK] = True  # further calls may come to it again
                weakly = self._torch.multiprocessing.reductions.StorageWeakRef
                saved = [weakly(value.untyped_storage()) for value in operands
                         if self._storage_of(value)]
                node.register_prehook(functools.partial(self._enter, id(node), saved))
                node.register_hook(functools.partial(self._leave, id(node)))

    def _open(self) -> list:
        if not hasattr(self._threads, "open"):
            self._threads.open = []
        return self._threads.open

    def _end_from(self, first: int) -> None:
        opened = self._open()
        while len(opened) > first:
            opened.pop()[1].close()

    def _enter(self, node: int, saved: list, gradients) -> None:
        self._leave(node)
        scope = contextlib.ExitStack()
        scope.enter_context(self._plugin.region())
        # Those that are gone were not saved.
        there = (self._torch.UntypedStorage._new_with_weak_ptr(each.cdata) for each in saved)
        storages = [each for each in there if each is not None]
        operands = (*(each._cdata for each in storages), *map(self._storage_of, gradients))
        scope.enter_context(self._plugin.holding(operands))
        self._open().append((node, scope))

    def _leave(self, node: int, *_gradients) -> None:
        opened = self._open()
        self._end_from(next((k for k, (each, _) in enumerate(opened) if each == node),
                            len(opened)))


class _Graph:
    """What is known of a function: whether it reads tensors by itself, and which it has."""

    def __init__(self, graph, compiled) -> None:
        self._graph, self._compiled = graph, compiled
        others = [node.g("Subgraph").copy() for kind in ("prim::fork", "prim::awaitable")
                  for node in graph.findAllNodes(kind)]
        for other in others:
            compiled._jit_pass_inline(other)
        self.forks = bool(others)
        self._is_resolved = not any(each.findAllNodes(name) for each in (graph, *others)
                                    for name in ("prim::CallMethod", "prim::CallFunction"))
        self.reads = not self._is_resolved or any(
            _has_tensor(node) for each in (graph, *others) for name in READING_NODES
            for node in each.findAllNodes(name))
        self._constants = [node.t("value") for node in graph.findAllNodes("prim::Constant")
                           if node.hasAttribute("value") and node.kindOf("value") == "t"]

    def held(self, owner) -> list:
        """Return the constants, and the attributes of the module `owner` that are used."""
        if owner is None:
            return self._constants
        if not self._is_resolved:
            return [*self._constants, *self._all_of(owner)]
        found = {next(self._graph.inputs()).debugName(): owner}
        for node in self._graph.findAllNodes("prim::GetAttr"):
            module = found.get(node.input().debugName())
            if module is not None:
                # An object of a scripted class may come as one of the class in Python.
                read = getattr(module, "getattr", functools.partial(getattr, module))
                found[node.output().debugName()] = read(node.s("name"))
        return [*self._constants, *found.values()]

    def _all_of(self, module) -> list:
        """Return the parameters and buffers of a module and of those in it."""
        compiled = self._compiled
        inner = [tensor for _, each in compiled.ModuleDict(module).items()
                 for tensor in self._all_of(each)]
        return [*inner, *(tensor for kind in (compiled.ParameterDict, compiled.BufferDict)
                          for _, tensor in kind(module).items())]


def _has_tensor(node) -> bool:
    types = [value.type().annotation_str for value in node.inputs()]
    return any("Tensor" in each or "Any" in each for each in types)


def _follow_static_modules(plugin, torch, storage_of) -> None:
    compiled = torch._C
    kind = getattr(compiled, "StaticModule", None)
    if kind is None:
        return
    leaves = torch.utils._pytree.tree_leaves
    make = compiled._jit_to_static_module
    any_forks = False  # of those made so far

    @functools.wraps(make)
    def make_static(source):
        nonlocal any_forks
        owner = None if isinstance(source, compiled.Graph) else source
        graph = source if owner is None else owner._get_method("forward").inlined_graph
        graph = _Graph(graph, compiled)
        any_forks = any_forks or graph.forks
        for tensor in leaves(graph.held(owner)):
            if storage := storage_of(tensor):
                plugin.escape(storage)
        return make(source)

    def running(original):
        @functools.wraps(original)
        def run(self, *args, **kwargs):
            operands = map(storage_of, leaves((args, kwargs)))
            whole = plugin.keeping() if any_forks else contextlib.nullcontext()
            with whole, plugin.region(), plugin.holding(operands):
                result = call_as_caller(original, self, *args, **kwargs)
                if any_forks:
                    for each in leaves(result):
                        if isinstance(each, compiled.Future):
                            with contextlib.suppress(Exception):  # who waits for it gets the error
                                each.wait()
                return result

        return run

    compiled._jit_to_static_module = make_static
    for name in ("__call__", "runAsync", "benchmark", "benchmark_individual_ops"):
        setattr(kind, name, running(getattr(kind, name)))
