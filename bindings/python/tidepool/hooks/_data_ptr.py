"""`torch.Tensor.data_ptr` as a method in C: launchers of kernels call it for each argument.

The method is the plugin's (bindings/torch/plugin/tensor_address.cpp), which is built without
Python: it is told here where a tensor's object has its type and its `c10::TensorImpl`, and gets
Python's own functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from ._methods import NO_ARGUMENTS, address, make

_WORD = ctypes.sizeof(ctypes.c_void_p)


class PythonTensors(ctypes.Structure):
    """The plugin's `tidepool_python_tensors`."""

    _fields_ = (("tensor_type", ctypes.c_void_p), ("parameter_type", ctypes.c_void_p),
                ("type_offset", ctypes.c_size_t), ("impl_offset", ctypes.c_size_t),
                ("integer_of", ctypes.c_void_p), ("call", ctypes.c_void_p),
                ("otherwise", ctypes.py_object), ("frame", ctypes.c_void_p),
                ("code_of", ctypes.c_void_p), ("instruction_of", ctypes.c_void_p),
                ("drop", ctypes.c_void_p))


def method(library, torch, otherwise: Callable):
    """Return a method for `torch.Tensor` that does what `otherwise` does, mostly without Python.

    Returns `otherwise` itself where a tensor's object is not laid out as expected.
    """
    tensors = (torch.ones(1), torch.ones(2, 3), torch.nn.Parameter(torch.ones(2)))
    layout, *others = map(_layout, tensors)
    if layout is None or any(other != layout for other in others):
        return otherwise
    described = PythonTensors(
        id(torch.Tensor), id(torch.nn.Parameter), *layout, address("PyLong_FromVoidPtr"),
        address("PyObject_CallOneArg"), otherwise, address("PyEval_GetFrame"),
        address("PyFrame_GetCode"), address("PyFrame_GetLasti"), address("Py_DecRef"))
    function = library.tidepool_data_ptr_method(ctypes.byref(described))
    if not function:
        return otherwise
    return make(torch.Tensor, "data_ptr", function, NO_ARGUMENTS,
                "data_ptr() -> int\n\nReturns the address of the first element.", otherwise)


def _layout(tensor) -> tuple[int, int] | None:
    """Return where a tensor's object has the pointers to its type and its `c10::TensorImpl`."""
    words = (ctypes.c_size_t * (type(tensor).__basicsize__ // _WORD)).from_address(id(tensor))
    found = [[k * _WORD for k, word in enumerate(words) if word == wanted]
             for wanted in (id(type(tensor)), tensor._cdata)]
    return (found[0][0], found[1][0]) if all(len(each) == 1 for each in found) else None
