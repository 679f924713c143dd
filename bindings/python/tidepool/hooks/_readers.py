"""Wrappers around Python's readers of raw pointers, which no dispatcher shows.

An evicted storage raises when its pointer is read (and `is_shared` ends the process), so these
restore first. Three kinds of access, each of them one function of the plugin:

- look: the bytes are read during the call (tolist, torch.save, storage indexing);
- write: they may be written during the call, or the address is compared (a storage's data_ptr): a
  new root version, which stays where it is; but `torch.save`, which only asks whether two storages
  are the same, gets a number of the storage, and nothing stays for that;
- escape: an alias stays for ever (numpy, DLPack, sharing, a tensor's data_ptr where it may be
  kept): never evicted again, and what is computed from it stays, too.

Only the innermost functions are wrapped: pickle, deepcopy, `torch.save`, multiprocessing and typed
storages all end in them. Storages that are not tracked yet are marked as well: an alias taken now
would later show writes that we do not see.

A tensor whose type or mode overrides PyTorch's functions goes to PyTorch untouched; PyTorch comes
back to the wrapper for the plain tensor inside. Not covered: extensions that read pointers in C++.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys
import types

from ..job import _plugin
from . import _data_ptr, _methods
from ._addresses import AddressPlaces
from ._callers import call_as_caller, hide_from_compiler, unless_overridden
from ._storages import address_of, storage_finder

# Readers by the class that has them; what a PyTorch version lacks is skipped.
TENSOR_READERS = {
    "tolist": "look",
    "data_ptr": "address", "const_data_ptr": "write",
    "apply_": "write", "map_": "write", "map2_": "write",
    "numpy": "escape",
}
STORAGE_READERS = {
    "_write_file": "look", "_get_filename": "look", "_get_shared_fd": "look",
    "_shared_incref": "look", "_shared_decref": "look",
    "data_ptr": "compared", "__setitem__": "fill", "fill_": "fill", "copy_": "fill",
    "_byteswap": "fill", "_set_from_file": "fill", "resize_": "resize",
    "_swap_data_ptr_": "write", "_resize_with_addr_": "write",
    "_share_fd_cpu_": "escape", "_share_filename_cpu_": "escape", "_share_cuda_": "escape",
}
_MISSING = object()


def hand_out(plugin, torch, tensor, storage: int, keeps: bool = True) -> None:
    """Give up a tensor's address: whoever `keeps` it may write there at any time.

    Of parameters it is asked for to compare them (tied weights), and all that is computed from an
    escaped tensor must stay: only their address is fixed.
    """
    with torch._C.DisableTorchFunction():
        is_parameter = tensor.requires_grad and tensor.is_leaf
    (plugin.written if is_parameter or not keeps else plugin.escape)(storage)


class Readers:
    """The installed wrappers; `uninstall` puts PyTorch's own functions back."""

    def __init__(self, plugin: _plugin.Plugin, torch) -> None:
        self._torch = torch
        self._plugin = plugin
        self._undo: list[tuple[object, str, object]] = []
        self._wrappers: list = []
        self._actions = {"look": plugin.make_resident, "write": plugin.written,
                         "escape": plugin.escape}
        self.storage_of = storage_finder(torch)
        self._unseen = torch._C.DisableTorchFunction  # by overrides of the job's
        self._places = AddressPlaces(plugin)

    def install(self) -> None:
        """Wrap every reader; on an error nothing stays wrapped."""
        try:
            self._install_tensor_readers()
            self._install_storage_readers()
            self._install_exporters()
            self._install_functions()
            self._install_queries()
            self._install_observers()
            self._hide_from_dynamo()
        except BaseException:
            self.uninstall()
            raise

    def uninstall(self) -> None:
        for owner, name, before in reversed(self._undo):
            if before is _MISSING:
                delattr(owner, name)
            else:
                _set(owner, name, before)
        self._undo.clear()

    # -- what is wrapped ---------------------------------------------------------------------------

    def _install_tensor_readers(self) -> None:
        tensor = self._torch.Tensor
        for name, kind in TENSOR_READERS.items():
            if not hasattr(tensor, name):
                continue
            original = getattr(tensor, name)
            if name == "numpy":
                make = self._numpy
            elif kind == "look":
                make = self._tensor_reader
            elif kind == "address":
                make = self._tensor_address
            else:
                make = functools.partial(self._tensor_marker, mark=self._actions[kind])
            wrapper = unless_overridden(self._torch, original, make)
            if kind == "address":
                wrapper = _data_ptr.method(self._plugin.library, self._torch, wrapper)
            self._put(tensor, name, wrapper)

    def _install_storage_readers(self) -> None:
        storage = self._torch.UntypedStorage
        for name, kind in STORAGE_READERS.items():
            if not hasattr(storage, name):
                continue
            original = getattr(storage, name)
            if kind == "look":
                wrapper = self._reader(original, address_of)
            elif kind == "compared":
                wrapper = self._storage_address(original)
            elif kind == "resize":
                wrapper = self._resize(original)
            elif kind == "fill":
                wrapper = self._filler(original)
            else:
                wrapper = self._storage_marker(original, self._actions[kind])
            self._put(storage, name, wrapper)
        self._put(storage, "__getitem__", self._getitem(storage.__getitem__))
        writer = self._torch._C.PyTorchFileWriter
        self._put(writer, "write_record", self._write_record(writer.write_record))

    def _install_exporters(self) -> None:
        torch = self._torch
        for name in ("_to_dlpack", "_to_dlpack_versioned"):
            if hasattr(torch._C, name):
                original = getattr(torch._C, name)
                self._put(torch._C, name, self._dlpack(original))
                for module in (torch.utils.dlpack, torch):
                    if getattr(module, "to_dlpack", None) is original:
                        self._put(module, "to_dlpack", getattr(torch._C, name))
        # The C table by which others export without calling Python; else they call __dlpack__.
        if "__dlpack_c_exchange_api__" in torch.Tensor.__dict__:
            table = torch.Tensor.__dict__["__dlpack_c_exchange_api__"]
            self._undo.append((torch.Tensor, "__dlpack_c_exchange_api__", table))
            del torch.Tensor.__dlpack_c_exchange_api__
        plain = torch.Tensor.__cuda_array_interface__

        def exporter(original):
            marker = self._tensor_marker(original, self._plugin.escape)

            def exported(tensor):
                with self._unseen():
                    raises = tensor.requires_grad or not tensor.is_cuda
                return (original if raises else marker)(tensor)

            return exported

        exported = unless_overridden(torch, plain.fget, exporter)
        self._put(torch.Tensor, "__cuda_array_interface__", property(exported, doc=plain.__doc__))

    def _install_functions(self) -> None:
        """Wrap functions of C that are given the tensor that they read."""
        torch = self._torch
        for name in ("set_state", "__setstate__"):
            self._put(torch.Generator, name,
                      self._argument_reader(getattr(torch.Generator, name)))
        if original := getattr(torch._C, "_data_address", None):
            self._put(torch._C, "_data_address",
                      self._tensor_marker(original, self._plugin.escape))
        name = "_cuda_jiterator_compile_and_launch_kernel"
        if hasattr(torch._C, name):
            self._put(torch._C, name, self._launcher(getattr(torch._C, name)))

    def _install_queries(self) -> None:
        """Answer questions about tracked storages without looking at them."""
        storage, tensor = self._torch.UntypedStorage, self._torch.Tensor
        self._put(storage, "is_shared", self._query(storage.is_shared, address_of))
        self._put(tensor, "is_pinned",
                  unless_overridden(self._torch, tensor.is_pinned,
                                    functools.partial(self._query, find=self.storage_of)))
        if is_cow := getattr(self._torch._C, "_is_cow_tensor", None):
            self._put(self._torch._C, is_cow.__name__, self._query(is_cow, self.storage_of))
        for kind in ("mutable", "immutable"):  # an evicted one's pointer throws
            name = f"_storage_throw_on_{kind}_data_ptr"
            if throws := getattr(self._torch._C, name, None):
                self._put(self._torch._C, name, self._number_query(throws))

    def _install_observers(self) -> None:
        """Evict nothing while an execution trace is taken: it notes the address of each tensor."""
        torch = self._torch
        kept = contextlib.ExitStack()
        for name in ("_enable_execution_trace_observer", "_disable_execution_trace_observer"):
            enters = name.startswith("_enable")
            original = getattr(torch._C._profiler, name)

            def switch(original=original, enters=enters):
                kept.close()
                if enters:
                    kept.enter_context(self._plugin.keeping())
                return original()

            for module in (torch._C._profiler, torch.profiler.profiler):
                self._put(module, name, functools.wraps(original)(switch))

    # -- kinds of wrappers -------------------------------------------------------------------------

    def _reader(self, original, find):
        """For a call that only reads: the bytes are there and stay, whatever other threads do."""
        holding = self._plugin.holding

        @functools.wraps(original)
        def reader(self, *args, **kwargs):
            with holding((find(self),)):
                return call_as_caller(original, self, *args, **kwargs)

        return reader

    def _tensor_reader(self, original):
        read, unseen = self._reader(original, self.storage_of), self._unseen

        @functools.wraps(original)
        def reader(self, *args, **kwargs):
            with unseen():
                if self.is_conj() or self.is_neg():
                    self = self.resolve_conj().resolve_neg()  # else PyTorch would, out of our sight
            return read(self, *args, **kwargs)

        return reader

    def _argument_reader(self, original):
        find, holding = self.storage_of, self._plugin.holding

        @functools.wraps(original)
        def reader(*args, **kwargs):
            given = [*args, *kwargs.values()]
            inside = [each for one in given if isinstance(one, tuple) for each in one]
            with holding(map(find, given + inside)):
                return call_as_caller(original, *args, **kwargs)

        return reader

    def _launcher(self, original):
        """For kernels that are launched beside the dispatcher: what they read stays from then on.

        They run after the call is over, on a stream that nobody else knows of.
        """
        find, written = self.storage_of, self._plugin.written

        @functools.wraps(original)
        def launcher(code, name, by_reference, outputs, tensors, arguments):
            for storage in filter(None, map(find, tensors)):
                written(storage)
            return original(code, name, by_reference, outputs, tensors, arguments)

        return launcher

    def _tensor_marker(self, original, mark):
        find, holding, region = self.storage_of, self._plugin.holding, self._plugin.region
        tensor_type = self._torch.Tensor

        @functools.wraps(original)
        def marker(self, *args, **kwargs):
            storage = find(self)
            if storage:
                mark(storage)
            operands = [find(operand) for operand in (self, *args, *kwargs.values())
                        if isinstance(operand, tensor_type)]
            # Restoring one may evict another, and so may a function that map_() calls. What that
            # computes from the tensor cannot be computed again: more of it is written afterwards.
            with holding(operands), region():
                return call_as_caller(original, self, *args, **kwargs)

        return marker

    def _tensor_address(self, original):
        """For a tensor's address."""
        find, plugin, torch = self.storage_of, self._plugin, self._torch
        places = self._places

        @functools.wraps(original)
        def address(self, *args, **kwargs):
            if storage := find(self):
                # Above is what asks whether the method is overridden, then the job.
                hand_out(plugin, torch, self, storage, places.keeps(sys._getframe(2)))
            return original(self, *args, **kwargs)

        return address

    def _storages_in(self, *operands) -> list[int]:
        storages = (getattr(operand, "_untyped_storage", operand) for operand in operands)
        return [address_of(storage) for storage in storages
                if isinstance(storage, self._torch.UntypedStorage)]

    def _filler(self, original):
        """For a call that writes a storage, and keeps no address of it."""
        holding, storages_in = self._plugin.holding, self._storages_in

        @functools.wraps(original)
        def filler(self, *args, **kwargs):
            with holding(storages_in(*args, *kwargs.values()), written=address_of(self)):
                return call_as_caller(original, self, *args, **kwargs)

        return filler

    def _storage_marker(self, original, mark):
        plugin, storages_in = self._plugin, self._storages_in
        # A swap changes both; else further storages are only read.
        swaps = original.__name__ == "_swap_data_ptr_"

        @functools.wraps(original)
        def marker(self, *args, **kwargs):
            storage = address_of(self)
            if storage:
                mark(storage)
            others = storages_in(*args, *kwargs.values())
            if swaps:
                for other in filter(None, others):
                    plugin.written(other)
            with plugin.holding(others):
                return call_as_caller(original, self, *args, **kwargs)

        return marker

    def _resize(self, original):
        """For a call that frees the bytes, or else moves them elsewhere."""
        marker, plugin = self._storage_marker(original, self._plugin.written), self._plugin

        @functools.wraps(original)
        def resize_(self, size):
            if size != 0:
                return marker(self, size)
            storage = address_of(self)
            with plugin.holding((storage,)):
                plugin.gives_up(storage)
                return call_as_caller(original, self, size)

        return resize_

    def _storage_address(self, original):
        marker = self._storage_marker(original, self._plugin.written)
        savers, loaders = _comparers(self._torch)
        by_type = self._torch.storage.TypedStorage._data_ptr.__code__
        state = self._plugin.state

        @functools.wraps(original)
        def data_ptr(self):
            caller = sys._getframe(1)
            if caller.f_code is by_type:
                caller = sys._getframe(2)
            loads = caller.f_code in loaders
            if loads or caller.f_code in savers:
                storage = address_of(self)
                if storage and state(storage) in _plugin.TRACKED_STATES:
                    return storage
            return original(self) if loads else marker(self)

        return data_ptr

    def _numpy(self, original):
        find, escape = self.storage_of, self._plugin.escape
        grad_enabled, unseen = self._torch.is_grad_enabled, self._unseen

        @functools.wraps(original)
        def numpy(self, *args, **kwargs):
            force = kwargs.get("force")
            with unseen():
                # Where a gradient could be missed, it only raises.
                gets_out = force or not (self.requires_grad and grad_enabled())
                if force and self.is_cpu and (self.is_conj() or self.is_neg()):
                    self = self.detach().resolve_conj().resolve_neg()  # which is what gets out
            if gets_out and (storage := find(self)):
                escape(storage)
            return original(self, *args, **kwargs)

        return numpy

    def _dlpack(self, original):
        find, plugin = self.storage_of, self._plugin

        @functools.wraps(original)
        def to_dlpack(tensor, *args, **kwargs):
            if kwargs.get("copy") is True:
                with plugin.region():  # what it exports is the result of a `clone` that it calls
                    return original(tensor, *args, **kwargs)
            storage = find(tensor)
            if storage:
                plugin.escape(storage)
            return original(tensor, *args, **kwargs)

        return to_dlpack

    def _getitem(self, original):
        look = self._reader(original, address_of)
        escape = self._plugin.escape

        @functools.wraps(original)
        def getitem(self, index):
            if isinstance(index, slice):  # a storage that shares the memory
                storage = address_of(self)
                if storage:
                    escape(storage)
                return original(self, index)
            return look(self, index)

        return getitem

    def _write_record(self, original):
        storage_type = self._torch.UntypedStorage
        write = self._reader(lambda storage, *args, **kwargs: original(*args, **kwargs), address_of)

        @functools.wraps(original)
        def write_record(*args, **kwargs):
            for value in (*args, *kwargs.values()):
                if isinstance(value, storage_type):
                    return write(value, *args, **kwargs)
            return call_as_caller(original, *args, **kwargs)

        return write_record

    def _query(self, original, find):
        state, look = self._plugin.state, self._plugin.make_resident

        @functools.wraps(original)
        def query(self, *args, **kwargs):
            storage = find(self)
            if storage and (args or kwargs):  # right or wrong, PyTorch knows
                look(storage)
            elif storage and state(storage) in _plugin.TRACKED_STATES:
                # Memory of ours is neither pinned nor copied on write, nor shared but by CUDA's.
                return original.__name__ == "is_shared" and self.is_cuda
            return call_as_caller(original, self, *args, **kwargs)

        return query

    def _number_query(self, original):
        state, look = self._plugin.state, self._plugin.make_resident

        @functools.wraps(original)
        def query(storage):
            if state(storage) in _plugin.TRACKED_STATES:
                look(storage)
            return original(storage)

        return query

    # -- bookkeeping -------------------------------------------------------------------------------

    def _put(self, owner, name: str, wrapper) -> None:
        before = owner.__dict__.get(name, _MISSING)
        self._wrappers.append(getattr(wrapper, "fget", wrapper))
        if isinstance(owner, type) and isinstance(wrapper, types.FunctionType):
            # So that pickle finds `torch.Tensor.tolist` by its name.
            wrapper.__module__, wrapper.__qualname__ = owner.__module__, f"{owner.__name__}.{name}"
            if isinstance(getattr(owner, name), types.MethodDescriptorType):
                wrapper = _methods.in_c(self._plugin.library, owner, name, wrapper)
        _set(owner, name, wrapper)
        self._undo.append((owner, name, before))

    def _hide_from_dynamo(self) -> None:
        hide_from_compiler(self._torch, *(f for f in self._wrappers if hasattr(f, "__code__")))


def _set(owner, name: str, value) -> None:
    """Set an attribute, also of a class of C's that refuses changes, as `torch.Generator` does."""
    try:
        setattr(owner, name, value)
    except TypeError:
        gc.get_referents(owner.__dict__)[0][name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def _comparers(torch) -> tuple[set[types.CodeType], set[types.CodeType]]:
    """Return what only compares storages' addresses: with each other to save, with 0 to load."""
    def within(*places: tuple[str, str]) -> set[types.CodeType]:
        functions = ((getattr(torch.serialization, name, None), inner) for name, inner in places)
        return {constant for function, inner in functions if function is not None
                for constant in function.__code__.co_consts
                if isinstance(constant, types.CodeType) and constant.co_name == inner}

    return (within(("_save", "persistent_id"), ("_legacy_save", "persistent_id")),
            within(("_load", "load_tensor"), ("_legacy_load", "persistent_load")))
