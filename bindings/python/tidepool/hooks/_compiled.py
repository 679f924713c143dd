"""What torch.compile's generated code reads stays: it takes raw pointers, and asks no dispatcher.

- A graph whose code is understood is called as an operator, and its results can be evicted:
  _compiled_calls.py. The rest is about the others, and about models compiled ahead of time.
- The inputs of a compiled graph are made roots before it runs: resident, and not evicted.
- While it runs, its thread is in a region of the plugin's: what the library calls between generated
  kernels make are roots, which the next kernel may read, and what they read is held. The same holds
  while a graph is compiled, which folds constants and tries kernels.
- The constants that a graph holds, parameters among them where it is frozen, are never evicted.

All of Inductor's ways to run end in the classes below, wrappers for CUDA graphs inside of them.
"""

from __future__ import annotations

import functools
import importlib.machinery
import sys
from typing import Any

from ..job import _plugin
from . import _compiled_calls

GRAPHS = "torch._inductor.output_code"  # the modules of the compiler that are wrapped
COMPILER = "torch._inductor.compile_fx"
CODE = "torch._inductor.codecache"
JUST_IN_TIME, AHEAD_OF_TIME = "CompiledFxGraph", "CompiledAOTI"
COMPILING = ("compile_fx", "_compile_fx_inner")  # the second one also compiles backward, later
# Of the classes for models compiled ahead of time: what runs one, and what gives it constants.
_RUN = ("run", "boxed_run")
_TAKE_CONSTANTS = ("load_constants", "update_constant_buffer", "update_constant_buffer_from_blob",
                   "update_constant_buffer_from_cpu")


def follow_compiled_graphs(plugin: _plugin.Plugin, torch, storage_of,
                           device: str | None = None) -> _compiled_calls.Graphs | None:
    """Wrap what compiles graphs and runs them, now or when the compiler is first imported.

    Args:
        device: "cpu" or "cuda": whose graphs may be recorded; None: no graph is.
    """
    wrap_runners(getattr(torch._C, "_aoti", None), plugin, storage_of)
    graphs = _compiled_calls.Graphs(plugin, torch, storage_of, device) if device else None
    for name, wrap in ((GRAPHS, functools.partial(wrap_graphs, graphs=graphs)),
                       (COMPILER, wrap_compiler), (CODE, wrap_constants)):
        wrap = functools.partial(wrap, plugin=plugin, storage_of=storage_of)
        if name in sys.modules:
            wrap(sys.modules[name])
        else:
            sys.meta_path.insert(0, _Finder(name, wrap))
    return graphs


def wrap_graphs(module, plugin: _plugin.Plugin, storage_of,
                graphs: _compiled_calls.Graphs | None = None) -> None:
    """Wrap the calls of compiled graphs."""
    for name in (JUST_IN_TIME, AHEAD_OF_TIME):
        kind = getattr(module, name, None)
        if kind is None:
            continue
        original = kind.__call__
        kind.__call__ = _running(original, plugin, storage_of)
        if graphs is not None and name == JUST_IN_TIME:
            kind.__call__ = _recording(original, kind.__call__, graphs)
        kind.__call__ = _as_pytorchs_error(kind.__call__)


def _as_pytorchs_error(original):
    """Give an out-of-memory error PyTorch's class, which kernels in C++ that need memory lose."""
    @functools.wraps(original)
    def call(self, inputs, *args, **kwargs):
        try:
            return original(self, inputs, *args, **kwargs)
        except RuntimeError as error:
            if type(error) is not RuntimeError or not str(error).startswith("out of memory: "):
                raise
            raise sys.modules["torch"].OutOfMemoryError(str(error)) from error

    return call


def _recording(original, otherwise, graphs: _compiled_calls.Graphs):
    @functools.wraps(original)
    def call(self, inputs):
        results = graphs.call(graphs.of(self), original, self, inputs)
        return otherwise(self, inputs) if results is None else results

    return call


def wrap_runners(module, plugin: _plugin.Plugin, storage_of) -> None:
    """Wrap the classes that run models compiled ahead of time."""
    for kind in vars(module).values() if module else ():
        if not isinstance(kind, type):
            continue
        for name in _RUN:
            if hasattr(kind, name):
                setattr(kind, name, _running(getattr(kind, name), plugin, storage_of))
        for name in _TAKE_CONSTANTS:
            if hasattr(kind, name):
                setattr(kind, name, _taking_constants(getattr(kind, name), plugin, storage_of))


def wrap_compiler(module, plugin: _plugin.Plugin, storage_of) -> None:
    """Let graphs be compiled in a region."""
    for name in COMPILING:
        if hasattr(module, name):
            setattr(module, name, _in_region(getattr(module, name), plugin))


def wrap_constants(module, plugin: _plugin.Plugin, storage_of) -> None:
    """Keep what is made an attribute of a module with generated code."""
    cache = module.PyCodeCache
    original = cache.load_by_key_path.__func__

    @functools.wraps(original)
    def load_by_key_path(cls, key, path, linemap=None, attrs=None, *args, **kwargs):
        for value in (attrs or {}).values():
            if storage := storage_of(value):
                plugin.escape(storage)
        return original(cls, key, path, linemap, attrs, *args, **kwargs)

    cache.load_by_key_path = classmethod(load_by_key_path)


def _running(original, plugin: _plugin.Plugin, storage_of):
    run = _in_region(original, plugin)

    @functools.wraps(original)
    def call(self, inputs, *args, **kwargs):
        for value in inputs:
            if storage := storage_of(value):
                plugin.written(storage)
        return run(self, inputs, *args, **kwargs)

    return call


def _in_region(original, plugin: _plugin.Plugin):
    @functools.wraps(original)
    def call(*args, **kwargs):
        with plugin.region():
            return original(*args, **kwargs)

    return call


def _taking_constants(original, plugin: _plugin.Plugin, storage_of):
    @functools.wraps(original)
    def take(self, constants, *args, **kwargs):
        for value in constants.values():
            if storage := storage_of(value):
                plugin.escape(storage)
        return original(self, constants, *args, **kwargs)

    return take


class _Finder:
    """Waits for one module, wraps it after it has run, and leaves."""

    def __init__(self, name: str, wrap) -> None:
        self._name, self._wrap = name, wrap

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader: Any = spec.loader if spec else None
        if hasattr(loader, "exec_module"):
            run = loader.exec_module

            def exec_module(module):
                run(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                self._wrap(module)

            loader.exec_module = exec_module
        return spec
