"""Kernels that the job puts in the place of PyTorch's own, or takes away again.

A replay would run the new kernel for what the old one made, and nothing is known of the new one: it
may keep state, or have side effects. So a registration for an operator that could be recorded is an
event: what was recorded is settled before, and the operator is not trusted from then on.

PyTorch itself puts routers, in Python, before some of its kernels when it has been imported, and
later, where a job asks for that (torch._native). They call another kernel, in Python, for the calls
that it suits, and the one before which they stand for all others. Only those are recorded.

Every way to register from Python ends in `torch._C._DispatchModule`: `torch.library.Library.impl`,
`torch.library.impl`, `register_kernel`, and the deletion of a library.
"""

from __future__ import annotations

import atexit
import functools
import sys
import warnings
import weakref
from collections.abc import Callable

from ._callers import call_as_caller

NAMESPACES = ("aten", "torchvision")  # only operators of these are ever recorded
# Keys whose kernels compute nothing: shapes alone, or a trace of the program.
WITHOUT_DATA = ("Fake", "Functionalize", "Meta", "PreDispatch", "Python", "PythonDispatcher",
                "PythonTLSSnapshot")
# What the keys begin with whose kernels pass on to those that are recorded. A library that says
# here how its own operators are differentiated or cast, as torchvision does, replaces nothing.
ABOVE_RESULTS = ("Autograd", "Autocast")
# Keys of torch.func's wrappers: their kernels, too, only pass on what is inside to those that are
# recorded. PyTorch registers some of them when a job first calls `vmap` or `jvp`.
OF_WRAPPERS = ("FuncTorchBatched", "FuncTorchBatchedDecomposition", "FuncTorchGradWrapper",
               "FuncTorchVmapMode")
# What the keys of a device's kernels end in, such as AutogradCUDA.
_KEY_ENDS = {"cpu": "CPU", "cuda": "CUDA"}
_EVERY_OPERATOR = "_"  # the namespace of fallbacks
_ROUTED = "_native"  # the namespace of what PyTorch's routers call
_ROUTERS = f"torch.{_ROUTED}.registry"  # the module that makes them
# Operators that no operator calls that draws: that would wait for Python with a generator's lock.
_MAY_BE_ROUTED = ("aten::bmm", "aten::_foreach_mm", "aten::linalg_polar", "aten::linalg_polar.out",
                  "aten::_fused_rms_norm")


class Registrations:
    """The wrappers of one process; they stay."""

    def __init__(self, plugin, torch, device: str,
                 trusted: Callable[[], set[str]] = set) -> None:
        """Take what returns the namespaces of the job's own operators that are recorded, too.

        Args:
            device: whose tensors are recorded, cpu or cuda.
        """
        self._plugin = plugin
        self._key = _KEY_ENDS[device]
        self._other_keys = tuple(end for each, end in _KEY_ENDS.items() if each != device)
        self._trusted = trusted
        self._compiled = torch._C
        self._falls_through = torch.library.fallthrough_kernel
        # By library of the dispatcher's: its namespace and its key, and whether it replaces any.
        self._places: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._replacing: weakref.WeakSet = weakref.WeakSet()
        self._at_exit = False
        self._anew = False  # routers are registered that were there already

    def follow(self) -> None:
        """Wrap what registers kernels and takes them away."""
        compiled = self._compiled
        kind = compiled._DispatchModule
        compiled._dispatch_library = self._library(compiled._dispatch_library)
        kind.impl = self._impl(kind.impl)
        kind.impl_with_aoti_compile = self._impl_with_aoti(kind.impl_with_aoti_compile)
        kind.fallback = self._fallback(kind.fallback)
        kind.reset = self._reset(kind.reset)
        atexit.register(self._stop)

    def _stop(self) -> None:
        """Let libraries go without a word: nothing is computed after this."""
        self._at_exit = True

    def _library(self, original):
        @functools.wraps(original)
        def dispatch_library(kind, namespace, key="", *args, **kwargs):
            made = original(kind, namespace, key, *args, **kwargs)
            self._places[made] = namespace, key
            return made

        return dispatch_library

    def _impl(self, original):
        @functools.wraps(original)
        def impl(library, name, key, *args, **kwargs):
            namespace, usual_key = self._places.get(library, (None, ""))
            if "::" not in name and namespace is None:
                namespace = self._namespace_with(name)
            operator = name if "::" in name else f"{namespace}::{name}"
            used_key = str(key) or usual_key
            namespace = operator.split("::")[0]
            if args and namespace == _ROUTED and args[0] is not self._falls_through:
                return call_as_caller(original, library, name, key,
                                      self._noting(args[0], False), *args[1:], **kwargs)
            if args and self._is_router(operator, used_key, args[0]):
                args = (self._noting_router(args[0]), *args[1:])
                with self._plugin.settling(), self._plugin.routing(operator, self._anew):
                    return call_as_caller(original, library, name, key, *args, **kwargs)
            if args and self._replaces_nothing(namespace, used_key, args[0]):
                return call_as_caller(original, library, name, key, *args, **kwargs)
            if args and namespace in NAMESPACES:
                args = (self._noting(args[0], namespace == "aten"), *args[1:])
            return self._register(library, operator, used_key, functools.partial(
                original, library, name, key, *args, **kwargs))

        return impl

    def _replaces_nothing(self, namespace: str, key: str, kernel) -> bool:
        """Return whether a kernel says nothing new of results that are recorded."""
        if _name_of(key) in OF_WRAPPERS:
            return True
        # PyTorch has kernels in Python for some operators, and puts them in late.
        if key.endswith(self._other_keys) and _is_of_pytorch(kernel):
            return True
        return (namespace != "aten" and _name_of(key).startswith(ABOVE_RESULTS)
                and (_is_of_pytorch(kernel) or _is_of(namespace, kernel)))

    def _is_router(self, operator: str, key: str, kernel) -> bool:
        """Return whether a kernel passes on to the device's own kernel that it replaces."""
        return (getattr(kernel, "__module__", None) == _ROUTERS
                and "_fallback" in (getattr(kernel, "__kwdefaults__", None) or {})
                and _name_of(key) == self._key and operator in _MAY_BE_ROUTED
                and self._compiled._dispatch_has_kernel_for_dispatch_key(operator, self._key))

    def _noting_router(self, router):
        @functools.wraps(router)
        def noting(*args, **kwargs):
            self._plugin.note_router()
            return call_as_caller(router, *args, **kwargs)

        return noting

    def put_routers_anew(self, registry) -> None:
        """Register the routers that are there already as if PyTorch was imported now.

        Their kernels say then when they run, and what they replace can be seen. Routers of
        operators for which that is not possible are not trusted.

        Args:
            registry: the module torch._native.registry.
        """
        libraries = (getattr(registry, "_override_libs", None)
                     or getattr(registry, "_aten_override_libs", {}))  # before 2.15
        self._anew = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch ignores those of such registrations, too
            for names in list(libraries):
                *space, name, key = names
                if key.endswith(self._other_keys):
                    continue
                try:
                    registered = [node for node in registry._graphs[names]
                                  if node.node_id in registry._defined_native_ops]
                    registry._register_overrides_from_graph(
                        *names, registered, filter_state=registry._filter_state)
                except Exception:
                    self._plugin.distrust(f"{'::'.join(space) or 'aten'}::{name}")
        self._anew = False

    def _noting(self, kernel, of_pytorch: bool):
        """Return a kernel that tells when it runs: another operator may call it inside.

        Operators that draw are PyTorch's, and call no other library's.
        """
        if kernel is self._falls_through or not callable(kernel):
            return kernel
        if of_pytorch and not _is_of_pytorch(kernel):
            self._plugin.note_own_kernel(True)  # before it can run inside of an operator that draws

        @functools.wraps(kernel)
        def noting(*args, **kwargs):
            if of_pytorch:
                self._plugin.note_own_kernel(True)
            with self._plugin.own_kernel():  # notes it, too
                return call_as_caller(kernel, *args, **kwargs)

        return noting

    def _namespace_with(self, name: str) -> str:
        """Return a namespace that may be that of a library from before we attached."""
        exists = self._compiled._dispatch_has_kernel
        return next((each for each in NAMESPACES if exists(f"{each}::{name}")), "")

    def _impl_with_aoti(self, original):
        @functools.wraps(original)
        def impl_with_aoti_compile(library, namespace, name, key):
            return self._register(library, f"{namespace}::{name}", str(key), functools.partial(
                original, library, namespace, name, key))

        return impl_with_aoti_compile

    def _fallback(self, original):
        @functools.wraps(original)
        def fallback(library, key, kernel, *args, **kwargs):
            if kernel is self._falls_through:
                return original(library, key, kernel, *args, **kwargs)  # it is as if there was none
            return self._register(library, _EVERY_OPERATOR, str(key), functools.partial(
                original, library, key, kernel, *args, **kwargs))

        return fallback

    def _is_first(self, operator: str, key: str) -> bool:
        """Return whether no kernel of an operator can have run for what is recorded."""
        has_kernel = self._compiled._dispatch_has_computed_kernel_for_dispatch_key
        try:
            return not any(has_kernel(operator, each) for each in (key, *_KEY_ENDS.values()))
        except RuntimeError:  # no such operator, or a key that stands for several
            return False

    def _reset(self, original):
        @functools.wraps(original)
        def reset(library):
            replaces = library in self._replacing
            may_be_wrapped = replaces or library not in self._places
            if self._at_exit or not (replaces or self._may_be_recorded(library)):
                original(library)
            else:
                with self._plugin.settling():
                    original(library)
            if self._at_exit:
                return
            self._plugin.rescan_operators()  # else PyTorch keeps the operators for our kernels
            if may_be_wrapped:
                self._plugin.wrap_own_kernels()  # those that are left

        return reset

    def _may_be_recorded(self, library) -> bool:
        """Return whether an operator that a library defines may be in records."""
        trusted = self._trusted()
        namespace = self._places.get(library, (None, ""))[0]
        return bool(trusted) if namespace is None else namespace in trusted

    def _register(self, library, operator: str, key: str, register):
        namespace = operator.split("::")[0]
        if _name_of(key) in WITHOUT_DATA or namespace not in (*NAMESPACES, _EVERY_OPERATOR):
            return call_as_caller(register)
        if self._is_first(operator, _name_of(key)):
            self._plugin.distrust(operator)
            return call_as_caller(register)
        with self._plugin.settling():
            result = call_as_caller(register)
            self._replacing.add(library)
            self._plugin.distrust(operator)  # before another thread can have it recorded
            return result


def _name_of(key: str) -> str:
    return key.split(".")[-1]


def _is_of(package: str, kernel) -> bool:
    return (getattr(kernel, "__module__", None) or "").startswith(f"{package}.")


def _is_of_pytorch(kernel) -> bool:
    return _is_of("torch", kernel)


def follow_registrations(plugin, torch, device: str,
                         trusted: Callable[[], set[str]] = set) -> None:
    """Notice from now on which operators get other kernels."""
    registrations = Registrations(plugin, torch, device, trusted)
    registrations.follow()
    if _ROUTERS in sys.modules:
        registrations.put_routers_anew(sys.modules[_ROUTERS])
