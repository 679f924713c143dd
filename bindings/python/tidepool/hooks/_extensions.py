"""Functions and classes of extension modules in C++ that are given tensors past the dispatcher.

`torch.utils.cpp_extension` builds such modules, and packages bring them, with pybind11's
`PYBIND11_MODULE`. Nothing is known of what a function does with the bytes: what it is given is
there, counts as written, and stays, and what its operators make stays. So are the gradients that
reach a function of autograd in C++ which it has left in the graph. An object may also keep what its
methods are given and its attributes are set to, so that this stays for good. Registered as an
operator (`TORCH_LIBRARY`), a function would leave its operands evictable.

What does not come through such a call is noticed where the library asks for its address
(bindings/torch/intercept/extension_addresses.h), which the plugin has to be told of.
"""

from __future__ import annotations

import functools
import gc
import importlib.machinery
import sys
import types

from ._callers import call_as_caller, hide_from_compiler
from ._readers import hand_out

CPP_FUNCTION = "CppFunction"  # the class of nodes that are none of PyTorch's


def follow_extensions(plugin, torch, storage_of) -> None:
    """Wrap the functions of extension modules, of those to come and those that are there."""
    loader = importlib.machinery.ExtensionFileLoader
    execute = loader.exec_module

    def wrapped(function, keeps: bool):
        call = handing_out(function, plugin, torch, storage_of, keeps)
        hide_from_compiler(torch, call)
        return call

    def wrap(module: types.ModuleType) -> None:
        for name, value in tuple(vars(module).items()):
            if _is_native_and_given_tensors(value):
                setattr(module, name, wrapped(value, keeps=False))
            elif isinstance(value, type) and value.__module__ == module.__name__:
                wrap_class(value)
            elif isinstance(value, types.ModuleType) and _is_within(value, module):
                wrap(value)

    def wrap_class(kind: type) -> None:
        for name, value in tuple(vars(kind).items()):
            if isinstance(value, property) and _is_native_and_given_tensors(value.fset):
                call = wrapped(value.fset, keeps=True)
                setattr(kind, name, property(value.fget, call, value.fdel, value.__doc__))
            elif _is_native_and_given_tensors(value):
                call = wrapped(getattr(value, "__func__", value), keeps=True)
                setattr(kind, name, staticmethod(call) if isinstance(value, staticmethod) else call)

    @functools.wraps(execute)
    def exec_module(self, module):
        execute(self, module)
        if not _is_of_pytorch(module):
            plugin.note_libraries()
            wrap(module)

    load = torch.ops.load_library

    @functools.wraps(load)
    def load_library(path):
        load(path)
        plugin.note_libraries()

    loader.exec_module = exec_module  # type: ignore[method-assign]
    torch.ops.load_library = load_library
    for module in _modules_that_are_there(torch):
        spec = getattr(module, "__spec__", None)
        if isinstance(getattr(spec, "loader", None), loader) and not _is_of_pytorch(module):
            wrap(module)


def _modules_that_are_there(torch) -> list:
    there = list(sys.modules.values())
    # Those that torch.utils.cpp_extension has loaded are not among the imported ones. While PyTorch
    # is imported it can have loaded none, and a look at all objects takes long.
    if not getattr(torch.__spec__, "_initializing", False):
        there += [each for each in gc.get_objects() if type(each) is types.ModuleType]
    return list({id(each): each for each in there}.values())


def handing_out(original, plugin, torch, storage_of, keeps: bool = True):
    """Wrap a function in C++ that may do anything with the tensors it is given.

    Args:
        keeps: whether it may keep their addresses.
    """
    leaves = torch.utils._pytree.tree_leaves

    def give(values) -> None:
        for each in leaves(values):
            if storage := storage_of(each):
                hand_out(plugin, torch, each, storage, keeps)

    @functools.wraps(original)
    def call(*args, **kwargs):
        give((args, kwargs))
        with plugin.region():
            result = call_as_caller(original, *args, **kwargs)
        if type(result) is not torch.Tensor and not isinstance(result, tuple | list | dict):
            return result
        made = {each.grad_fn for each in leaves(result) if isinstance(each, torch.Tensor)}
        for node in made:
            if type(node).__name__ == CPP_FUNCTION:
                node.register_prehook(give)
        return result

    return call


def is_given_tensors(function) -> bool:
    """Return whether a function says so in its signature, as all that pybind11 makes does."""
    return "Tensor" in (getattr(function, "__doc__", None) or "")


def _is_native_and_given_tensors(value) -> bool:
    value = getattr(value, "__func__", value)
    return isinstance(value, types.BuiltinFunctionType) and is_given_tensors(value)


def _is_within(module: types.ModuleType, outer: types.ModuleType) -> bool:
    return module.__name__.startswith(f"{outer.__name__}.")


def _is_of_pytorch(module: types.ModuleType) -> bool:
    return module.__name__.partition(".")[0] == "torch"
