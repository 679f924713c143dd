"""Tells the plugin where optimizers run: their state is named in reports, and steps are counted.

What an optimizer writes in place is its state and stays. A closure's forward and backward are not
the optimizer's, and neither is anything after a step that raised.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

_ENTER, _END_STEP, _LEAVE = 1, 0, 2  # what tidepool_optimizer_scope takes


def follow_optimizers(plugin, optimizer_class, is_compiling,
                      end_step: Callable[[], None] | None = None) -> None:
    """Watch the steps of all optimizers, also of those that are there already.

    Args:
        optimizer_class: torch.optim.Optimizer, whose `profile_hook_step` wraps each `step`.
        is_compiling: whether torch.compile is tracing what runs.
        end_step: leaves an optimizer whose step has been done; else the plugin is told at once.
    """
    scope = _Scope(plugin, end_step or functools.partial(plugin.optimizer_scope, _END_STEP),
                   is_compiling)
    original = optimizer_class.profile_hook_step

    @functools.wraps(original)
    def profile_hook_step(step):
        return original(_watched(step, scope, is_compiling))

    optimizer_class.profile_hook_step = staticmethod(profile_hook_step)
    for subclass in _subclasses(optimizer_class):
        step: Any = vars(subclass).get("step")
        if getattr(step, "hooked", False):
            # The step inside of PyTorch's wrapper: schedulers may hold the wrapper itself.
            cell = step.__closure__[step.__code__.co_freevars.index("func")]
            cell.cell_contents = _watched(cell.cell_contents, scope, is_compiling)


def _subclasses(parent) -> set[type]:
    found: set[type] = set()
    left = [parent]
    while left:
        new = [child for child in left.pop().__subclasses__() if child not in found]
        found.update(new)
        left += new
    return found


class _Scope:
    """Whether the calling thread is in an optimizer's step, and how deep."""

    def __init__(self, plugin, end_step: Callable[[], None], is_compiling) -> None:
        self._plugin = plugin
        self._end_step = end_step
        self._is_compiling = is_compiling
        self._local = threading.local()
        self._outside: weakref.WeakSet = weakref.WeakSet()  # the functions that run so

    def depth(self) -> int:
        return getattr(self._local, "depth", 0)

    def enter(self) -> None:
        depth = self.depth()
        if depth == 0:
            self._plugin.rescan_operators()
            self._plugin.optimizer_scope(_ENTER)
        self._local.depth = depth + 1

    def leave(self, depth: int, has_stepped: bool) -> None:
        """Be as deep as before `enter`; a step of the job ends where the outermost one is done."""
        self._local.depth = depth
        if depth == 0 and has_stepped:
            self._end_step()
        elif depth == 0:
            self._plugin.optimizer_scope(_LEAVE)

    def outside(self, closure):
        """Return a closure that runs as if its caller were in no optimizer.

        An optimizer may look at more of it than what it returns. So an object of a class in Python
        stays itself, and its class's calls run so from then on; a function, a method and a partial
        are replaced by ones with the same attributes, though without their code and signature.
        What else can be called runs in the optimizer, where what it makes stays.
        """
        if isinstance(closure, types.MethodType):
            return types.MethodType(self.outside(closure.__func__), closure.__self__)
        if type(closure) is functools.partial:
            bound = functools.partial(self.outside(closure.func), *closure.args, **closure.keywords)
            bound.__dict__ = closure.__dict__
            return bound
        if isinstance(closure, types.FunctionType):
            run = self._function_outside(closure)
            run.__dict__ = closure.__dict__  # what either gets later, the other has, too
            return run
        self._call_outside(type(closure))
        return closure

    def _call_outside(self, kind: type) -> None:
        """Have the objects of a class run outside when they are called, where this can be done."""
        owner: Any = next(each for each in kind.__mro__ if "__call__" in vars(each))
        call = vars(owner)["__call__"]
        if isinstance(call, types.FunctionType) and call not in self._outside:
            with contextlib.suppress(AttributeError, TypeError):
                owner.__call__ = self._function_outside(call)

    def _function_outside(self, closure: types.FunctionType) -> Callable:
        is_compiling = self._is_compiling

        @functools.wraps(closure)
        def run(*args, **kwargs):
            if is_compiling():
                return closure(*args, **kwargs)
            depth = self.depth()
            if depth == 0:
                return closure(*args, **kwargs)
            try:
                self._plugin.optimizer_scope(_LEAVE)
                self._local.depth = 0
                return closure(*args, **kwargs)
            finally:
                self._local.depth = depth
                self._plugin.optimizer_scope(_ENTER)

        self._outside.add(run)
        return run


def _is_closure(given) -> bool:
    """Return whether it is only called; a module that `step` is given has parameters, too."""
    return callable(given) and not hasattr(given, "parameters")


def _watched(step, scope: _Scope, is_compiling):
    @functools.wraps(step)
    def watched(*args, **kwargs):
        if is_compiling():
            return step(*args, **kwargs)
        if len(args) > 1 and _is_closure(args[1]):
            args = (args[0], scope.outside(args[1]), *args[2:])
        elif _is_closure(kwargs.get("closure")):
            kwargs = {**kwargs, "closure": scope.outside(kwargs["closure"])}
        depth, has_stepped = scope.depth(), False
        try:
            scope.enter()
            result = step(*args, **kwargs)
            has_stepped = True
            return result
        finally:
            scope.leave(depth, has_stepped)

    return watched
