"""Calls of what a wrapper wraps, in the name of the line of the job's that called the wrapper.

Warnings are shown, and counted once, by the file and line of the innermost Python frame: without
this it would be the wrapper's.
"""

from __future__ import annotations

import sys
import types
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
    try:
        compiler = torch._C._dynamo.eval_frame
        skip = compiler._FrameAction.SKIP
        never = compiler._FrameExecStrategy(skip, skip)
        set_strategy = compiler.set_code_exec_strategy
    except AttributeError:  # then it looks into them and breaks its graph there
        return
    for function in functions:
        set_strategy(function.__code__, never)


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
