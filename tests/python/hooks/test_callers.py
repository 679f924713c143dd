"""What is called in a caller's name warns at the caller's line."""

import inspect
import types
import warnings

import pytest
from tidepool.hooks import _callers


def in_package(source):
    """Return a function `f` that stands in a module of the package's."""
    module = types.ModuleType("tidepool._of_test")
    module.__dict__.update(__package__="tidepool", call_as_caller=_callers.call_as_caller)
    exec(source, module.__dict__)
    return module.f


@pytest.mark.parametrize("level", [1, 2])
def test_warnings_name_the_line_outside(level):
    wrapped = in_package(
        "def f(function, *args, **kwargs):\n"
        "    return (lambda: call_as_caller(function, *args, **kwargs))()\n")

    def warn(message, stacklevel):
        warnings.warn(message, stacklevel=stacklevel)
        return message

    function = warnings.warn if level == 1 else warn
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        wrapped(function, "first", stacklevel=level)
        line = inspect.currentframe().f_lineno - 1
    assert [(each.filename, each.lineno) for each in seen] == [(__file__, line)]


def test_results_and_errors_come_through():
    wrapped = in_package("def f(*args): return call_as_caller(*args)\n")
    assert wrapped(max, 3, 5) == 5
    with pytest.raises(ZeroDivisionError):
        wrapped(divmod, 1, 0)


def test_wrappers_are_hidden_with_all_that_they_call():
    told = {}
    frames = types.SimpleNamespace(_FrameAction=types.SimpleNamespace(SKIP="skip"),
                                   _FrameExecStrategy=lambda *actions: actions,
                                   set_code_exec_strategy=told.__setitem__)
    torch = types.SimpleNamespace(_C=types.SimpleNamespace(
        _dynamo=types.SimpleNamespace(eval_frame=frames)))

    def wrapper():
        pass

    _callers.hide_from_compiler(torch, wrapper, in_package)
    assert told == {wrapper.__code__: ("skip", "skip"),
                    in_package.__code__: ("skip", "skip")}


def test_without_a_compiler_nothing_is_hidden():
    _callers.hide_from_compiler(types.SimpleNamespace(), in_package)
