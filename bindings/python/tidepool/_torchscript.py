"""TorchScript's own readers of raw pointers, which run below Python where no dispatcher shows them.

- What saves, copies, freezes or prints a module or a graph reads parameters, attributes and
  constants anywhere inside: all that is evicted is restored before, and nothing is evicted while
  it runs.
- `tolist` within a scripted function reads what the function has just computed: a call of such a
  function is a region of the plugin's, in which results stay, and its arguments are held.
"""

from __future__ import annotations

import functools
import re
import weakref

# Readers of whole modules and graphs, by the class of torch._C that has them.
METHODS = {
    "ScriptModule": ("save", "save_to_buffer", "_save_for_mobile", "_save_to_buffer_for_mobile",
                     "dump", "dump_to_str", "code_with_constants", "__deepcopy__", "__getstate__"),
    "ScriptObject": ("__deepcopy__", "__getstate__"),
    "ScriptFunction": ("save", "save_to_buffer"),
    "ScriptModuleSerializer": ("serialize", "write_files"),  # of torch.package
    "Graph": ("__repr__", "__str__", "str", "_export_onnx", "_pretty_print_onnx"),
    "Node": ("__repr__", "__str__"),
}
# The same among the functions of torch._C: those that fold, save or export.
FUNCTIONS = re.compile("_freeze_module|_jit_pass_.*(frozen|fold|optimize_for|_onnx)|"
                       "_save_(jit_module|mobile_module|parameters)")
CALLED = ("ScriptFunction", "ScriptMethod")
READING_NODE = "prim::tolist"


def follow_torchscript(plugin, torch, storage_of) -> None:
    """Wrap TorchScript's readers."""
    compiled = torch._C
    for kind_name, names in METHODS.items():
        kind = getattr(compiled, kind_name, None)
        for name in names:
            if kind is not None and name in vars(kind):
                setattr(kind, name, _settled(getattr(kind, name), plugin))
    for name in list(filter(FUNCTIONS.match, vars(compiled))):
        setattr(compiled, name, _settled(getattr(compiled, name), plugin))
    for kind_name in CALLED:
        kind = getattr(compiled, kind_name, None)
        if kind is not None:
            kind.__call__ = _called(kind.__call__, plugin, torch, storage_of)


def _settled(original, plugin):
    @functools.wraps(original)
    def read(*args, **kwargs):
        with plugin.settling():
            return original(*args, **kwargs)

    return read


def _called(original, plugin, torch, storage_of):
    reads: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
    leaves = torch.utils._pytree.tree_leaves

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        is_reader = reads.get(self)
        if is_reader is None:
            is_reader = reads[self] = bool(self.inlined_graph.findAllNodes(READING_NODE))
        if not is_reader:
            return original(self, *args, **kwargs)
        plugin.region(1)
        try:
            with plugin.holding(map(storage_of, leaves((args, kwargs)))):
                return original(self, *args, **kwargs)
        finally:
            plugin.region(0)

    return call
