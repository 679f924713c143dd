"""Calls of what a wrapper wraps, in the name of the line of the job's that called the wrapper.

Warnings are shown, and counted once, by the file and line of the innermost Python frame: without
this it would be the wrapper's.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

_CALL = (lambda function, args, kwargs: function(*args, **kwargs)).__code__
_PACKAGE = __name__.partition(".")[0]


def _is_ours(frame: types.FrameType) -> bool:
    """Return whether a frame runs code of this package, whichever of its folders that is in."""
    return (frame.f_globals.get("__package__") or "").partition(".")[0] == _PACKAGE


def give_own_code(function: Any, **changes) -> None:
    """Have a function share its code object with none; what is told of code is told of all."""
    function.__code__ = function.__code__.replace(**changes)


def hide_from_compiler(torch, *functions) -> None:
    """Have torch.compile look neither into wrappers nor into what they call.

    They may not call code of the job's. Does not import the compiler. What it sees and finds no
    tensors in, it does not look at again, and that may be code that the job runs, too, as that of
    contextlib is: the job would be compiled in other parts.
    """
    _pass_over(torch, (function.__code__ for function in functions), below="SKIP")


def hide_package_from_compiler(torch) -> None:
    """Have torch.compile pass over each function of this package, and look on at what it calls.

    Some of them call code of the job's, or PyTorch's, which it looks at without us, too.
    """
    _pass_over(torch, _codes_of_package(), below="DEFAULT")


def _pass_over(torch, codes: Iterable[types.CodeType], below: str) -> None:
    """Have torch.compile pass over code, and do `below` with what it calls."""
    try:
        compiler = torch._C._dynamo.eval_frame
        action = compiler._FrameAction
        strategy = compiler._FrameExecStrategy(action.SKIP, getattr(action, below))
        set_strategy = compiler.set_code_exec_strategy
    except AttributeError:  # then it looks into it and breaks its graph there
        return
    for code in codes:
        set_strategy(code, strategy)


def _codes_of_package() -> Iterator[types.CodeType]:
    """Yield the code of all functions of the modules that are imported, and of those inside."""
    for module in list(sys.modules.values()):
        if (getattr(module, "__name__", "") or "").partition(".")[0] != _PACKAGE:
            continue
        waiting = list(vars(module).values())
        while waiting:
            value = waiting.pop()
            value = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if isinstance(value, types.CodeType):
                yield value
                waiting.extend(value.co_consts)
            elif isinstance(value, type) and value.__module__ == module.__name__:
                waiting.extend(vars(value).values())
            elif getattr(value, "__module__", None) == module.__name__:
                waiting.append(getattr(inspect.unwrap(value), "__code__", None))


def call_as_caller(function, *args, **kwargs):
    """Call a function from a frame that looks like the nearest one outside of this package."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return function(*args, **kwargs)
    code = _CALL.replace(co_filename=frame.f_code.co_filename, co_name=frame.f_code.co_name,
                         co_firstlineno=frame.f_lineno)
    return types.FunctionType(code, frame.f_globals)(function, args, kwargs)


def unless_overridden(torch, original, make):
    """Return a method of `torch.Tensor` that leaves to PyTorch the tensors that override it.

    The others get what `make(original)` returns. A call whose override PyTorch passes over
    (`torch.overrides.redispatch_function`) gets what `make` returns of a function that has PyTorch
    pass it over once more. What wrappers ask such tensors themselves they have to ask unseen.
    """
    overridden = torch.overrides.has_torch_function_unary
    # Earlier versions of PyTorch pass over none.
    is_passed_over = getattr(torch._C, "_peek_should_skip_torch_function", lambda: False)
    pass_over = getattr(torch._C, "_set_skip_next_torch_function", lambda on: None)

    @functools.wraps(original)
    def passing_over(self, *args, **kwargs):
        pass_over(True)
        try:
            return call_as_caller(original, self, *args, **kwargs)
        finally:
            pass_over(False)

    wrapper, wrapper_below = make(original), make(passing_over)

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        if is_passed_over():
            pass_over(False)  # for what the wrapper asks
            return wrapper_below(self, *args, **kwargs)
        if overridden(self):
            return call_as_caller(original, self, *args, **kwargs)
        return wrapper(self, *args, **kwargs)

    return method
