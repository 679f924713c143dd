"""Calls of an operator's kernels by dispatch keys that the caller has chosen.

`OpOverload.redispatch` takes a set of keys, `OpOverload._op_dk` the one key whose kernel is to run,
and a guard of `torch._C` replaces the keys of a thread. Made by hand these leave out the key on
which the plugin sees operators: the kernel would not find evicted operands, and what it writes
would not be noticed. So the key is added where the kernel that was chosen is a device's own.

While PyTorch traces, it looks for kernels in Python by keys, too, and there a kernel of the
plugin's for a composition is not to stand before the composition that is written in Python.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

from ..job import _plugin

KEY = "CustomRNGKeyId"  # kInterceptionKey in bindings/torch/base/devices.h
BACKENDS = ("CPU", "CUDA", "QuantizedCPU", "QuantizedCUDA")


def follow_redispatches(plugin: _plugin.Plugin, torch, storage_of: Callable) -> None:
    """Wrap what calls kernels by keys, and kernels that are called by themselves."""
    follower = _Follower(torch._C)
    kernel = torch._C._SafeKernelFunction
    kernel.call_boxed = follower.call_boxed(kernel.call_boxed, plugin, storage_of)
    kind = torch._ops.OpOverload
    kind.redispatch = follower.redispatch(kind.redispatch)
    kind._op_dk = _ByKey(follower)
    torch._C._ForceDispatchKeyGuard = follower.guard(torch._C._ForceDispatchKeyGuard)
    torch._ops.resolve_key = follower.resolve_key(torch._ops.resolve_key)


class _Follower:
    """Makes the wrappers, and adds the key."""

    def __init__(self, compiled) -> None:
        self._compiled = compiled
        self._key = compiled._parse_dispatch_key(KEY)
        self._backends = {getattr(compiled.DispatchKey, name) for name in BACKENDS}

    def seen(self) -> bool:
        """Return whether the plugin sees this thread's operators, and is not just running one."""
        compiled = self._compiled
        return (compiled._dispatch_tls_is_dispatch_key_included(KEY)
                and not compiled._dispatch_tls_is_dispatch_key_excluded(KEY))

    def completed(self, overload, keys):
        """Return a set of keys, with ours where an operator's kernel of a device was chosen."""
        is_left_out = keys.highestPriorityTypeId() in self._backends and self.seen()
        if is_left_out and not self._passes_by(overload.name()):
            keys = keys.add(self._key)
        return keys

    def _passes_by(self, name: str) -> bool:
        """Return whether the plugin does not look at an operator."""
        compiled = self._compiled
        return (compiled._dispatch_has_kernel_for_dispatch_key(name, KEY)  # else it asks for one
                and compiled._dispatch_kernel_for_dispatch_key_is_fallthrough(name, KEY))

    def redispatch(self, original):
        @functools.wraps(original)
        def redispatch(self, keyset, /, *args, **kwargs):
            return original(self, follower.completed(self, keyset), *args, **kwargs)

        follower = self
        return redispatch

    def resolve_key(self, original):
        keys = self._compiled.DispatchKey
        composition = keys.CompositeImplicitAutograd
        # Those of the plugin's kernels for compositions. PyTorch has none of its own there.
        of_plugin = {keys.AutogradCPU, keys.AutogradCUDA, keys.AutogradOther, self._key}

        @functools.wraps(original)
        def resolve_key(op, key):
            in_python = op.py_kernels
            if key in of_plugin and composition in in_python and key not in in_python:
                return composition
            return original(op, key)

        return resolve_key

    def by_key(self, overload, original):
        """Return what stands for an overload's `_op_dk`."""
        compiled, schema = self._compiled, overload._schema

        @functools.wraps(original)
        def call(key, /, *args, **kwargs):
            keys = compiled.DispatchKeySet(key)
            completed = self.completed(overload, keys)
            if completed.raw_repr() == keys.raw_repr():
                return original(key, *args, **kwargs)
            operator = compiled._dispatch_find_schema_or_throw(schema.name, schema.overload_name)
            return operator.redispatch_boxed(completed, *args, **kwargs)

        return call

    def call_boxed(self, original, plugin, storage_of):
        """For kernels that are called by themselves, and mostly work beside the dispatcher.

        What such a kernel makes stays. Some write more than their schema says, so that all that it
        is given has other contents then. With keys of autograd's and ours it may be one that goes
        on through the dispatcher, where operators are seen.
        """
        @functools.wraps(original)
        def call_boxed(kernel, keyset, /, *args, **kwargs):
            if not self.seen():
                return original(kernel, keyset, *args, **kwargs)
            goes_on = (keyset.has(self._key)
                       and keyset.highestPriorityTypeId() not in {self._key, *self._backends})
            arguments = kernel.op_handle.schema().arguments
            writes = {argument.name for argument in arguments if argument.is_write}
            names = [*(argument.name for argument in arguments[:len(args)]), *kwargs]
            with contextlib.ExitStack() as held:
                if not goes_on:
                    held.enter_context(plugin.region())
                for name, value in zip(names, (*args, *kwargs.values()), strict=False):
                    is_written = not goes_on or name in writes
                    for each in value if isinstance(value, list | tuple) else (value,):
                        storage = storage_of(each)
                        held.enter_context(plugin.holding((), written=storage) if is_written
                                           else plugin.holding((storage,)))
                return original(kernel, keyset, *args, **kwargs)

        return call_boxed

    def guard(self, original):
        @functools.wraps(original, updated=())
        def guard(*keys):
            if keys and self.seen() and not keys[1].has(self._key):
                keys = (keys[0].add(self._key), keys[1])
            return original(*keys)

        return guard


class _ByKey:
    """The attribute `_op_dk` of overloads, whenever they were made: each has its own function."""

    def __init__(self, follower: _Follower) -> None:
        self._follower = follower

    def __get__(self, overload, kind=None):
        if overload is None:
            return self
        return self._follower.by_key(overload, vars(overload)["_op_dk"])

    def __set__(self, overload, value) -> None:
        vars(overload)["_op_dk"] = value
