"""Restores what torch.compile's generated code reads: it takes raw pointers of its inputs.

Inductor's kernels ask no dispatcher, so the inputs of a compiled graph are made roots before it
runs: resident, and not evicted while it does. Its outputs are roots anyway.
"""

from __future__ import annotations

import functools
import importlib.machinery
import sys

from . import _plugin

MODULE = "torch._inductor.output_code"
CLASSES = ("CompiledFxGraph", "CompiledAOTI")


def follow_compiled_graphs(plugin: _plugin.Plugin, storage_of) -> None:
    """Wrap the compiled graphs' calls, now or when the compiler is first imported."""
    if MODULE in sys.modules:
        wrap_graphs(sys.modules[MODULE], plugin, storage_of)
    else:
        sys.meta_path.insert(0, _Finder(plugin, storage_of))


def wrap_graphs(module, plugin: _plugin.Plugin, storage_of) -> None:
    for name in CLASSES:
        graph = getattr(module, name, None)
        if graph is not None:
            graph.__call__ = _marking_inputs(graph.__call__, plugin.written, storage_of)


def _marking_inputs(original, written, storage_of):
    @functools.wraps(original)
    def call(self, inputs, *args, **kwargs):
        for value in inputs:
            storage = storage_of(value)
            if storage:
                written(storage)
        return original(self, inputs, *args, **kwargs)

    return call


class _Finder:
    """Waits for the one module, wraps it after it has run, and leaves."""

    def __init__(self, plugin: _plugin.Plugin, storage_of) -> None:
        self._plugin, self._storage_of = plugin, storage_of

    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                wrap_graphs(module, self._plugin, self._storage_of)

            spec.loader.exec_module = exec_module
        return spec
