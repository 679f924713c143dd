"""Where a job with a trace calls its operators: lines of its code, and the module.

The plugin asks for each operator, on the thread that runs it. An operator that runs backward has
the place of the forward operator whose node of the graph runs. The answer is the address of a JSON
text, which lives as long as the process: {"lines": [...], "module": ..., "backward": true}, with
the innermost line last, and without what is not known.

Invariant: the job computes what it would compute without: nothing of it is kept alive but code, and
no variable of a frame is looked at.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import sys
import threading
import types
import weakref

from ..job._plugin import PLACE_SOURCE, Plugin

_MOST_LINES = 24  # of a place, the innermost
_MOST_NODES = 100_000  # of a generation: the places of nodes of the last two are known
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_here: Places | None = None  # the plugin keeps a pointer to its function


def follow_places(plugin: Plugin, torch) -> None:
    """Tell the plugin, from now on, where operators are called."""
    global _here
    _here = Places(torch)
    _here.install(plugin)


class Places:
    """Knows the places of one process. Thread safe under Python's lock."""

    def __init__(self, torch) -> None:
        self._torch = torch
        self._outside = (os.path.dirname(os.path.abspath(torch.__file__)) + os.sep,
                         _PACKAGE + os.sep, "<frozen ")
        self._folder = os.getcwd() + os.sep
        # By its id, as it takes long to hash: code, and the name of its file, "" if it is none of
        # the job's.
        self._codes: dict[int, tuple[types.CodeType, str]] = {}
        self._texts: dict[tuple, ctypes.Array] = {}
        self._places: dict[tuple, tuple] = {}  # each equal place once
        self._node_places: dict[int, tuple] = {}  # by the number of the node of the graph
        self._older_node_places: dict[int, tuple] = {}
        self._local = threading.local()
        self._modules: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # their names
        self._number_of_next_node = torch._C._autograd._get_sequence_nr
        self._running_node = torch._C._current_autograd_node
        self._pointer = PLACE_SOURCE(self._address)

    def install(self, plugin: Plugin) -> None:
        """Follow modules, and be asked by the plugin."""
        import torch.nn.modules.module as modules  # its package hides it

        modules.register_module_forward_pre_hook(self._enter)
        modules.register_module_forward_hook(self._leave, always_call=True)
        plugin.library.tidepool_set_place_source(self._pointer)
        # Operators may run when Python cannot be asked any more.
        atexit.register(plugin.library.tidepool_set_place_source, PLACE_SOURCE())

    # -- modules -----------------------------------------------------------------------------------

    def _enter(self, module, inputs) -> None:
        if not self._torch.compiler.is_compiling():
            self._stack().append(module)

    def _leave(self, module, inputs, result) -> None:
        if not self._torch.compiler.is_compiling():
            stack = self._stack()
            while stack and stack.pop() is not module:  # those that were left without a word
                pass

    def _stack(self) -> list:
        try:
            return self._local.stack
        except AttributeError:
            self._local.stack = []
            return self._local.stack

    def _module_name(self) -> str:
        stack = self._stack()
        if not stack:
            return ""
        name = self._modules.get(stack[-1])
        if name is None:
            root = stack[0]
            for path, module in root.named_modules():
                label = f"{type(root).__name__}.{path}" if path else type(root).__name__
                self._modules.setdefault(module, label)
            name = self._modules.setdefault(stack[-1], type(stack[-1]).__name__)
        return name

    # -- places ------------------------------------------------------------------------------------

    def _address(self) -> int | None:
        try:
            return ctypes.addressof(self._text(self._place()))
        except Exception:  # as at the interpreter's end: the place is not known then
            return None

    def _place(self) -> tuple:
        """Return module, whether backward runs, and instruction and code of each line."""
        node = self._running_node()
        if node is not None:
            number = node._sequence_nr()
            found = self._node_places.get(number) or self._older_node_places.get(number)
            return (found[0], True, found[2]) if found else ("", True, self._lines())
        place = (self._module_name(), False, self._lines())
        number = self._number_of_next_node() - 1  # of the node that was made last
        if number >= 0 and getattr(self._local, "number", -1) != number:
            self._local.number = number
            if len(self._node_places) >= _MOST_NODES:
                self._older_node_places, self._node_places = self._node_places, {}
            self._node_places[number] = self._places.setdefault(place, place)
        return place

    def _lines(self) -> tuple:
        lines: list = []
        frame: types.FrameType | None = sys._getframe(3)
        while frame is not None and len(lines) < 2 * _MOST_LINES:
            code = frame.f_code
            known = self._codes.get(id(code))
            if known is None:
                known = self._codes[id(code)] = (code, self._name(code))
            if known[1]:
                lines += (frame.f_lasti, id(code))
            frame = frame.f_back
        return tuple(lines)

    def _name(self, code: types.CodeType) -> str:
        path = os.path.abspath(code.co_filename)
        if path.startswith(self._outside) or code.co_filename.startswith(self._outside):
            return ""
        _, found, inside = path.rpartition(f"{os.sep}site-packages{os.sep}")
        return inside if found else path.removeprefix(self._folder)

    def _text(self, place: tuple) -> ctypes.Array:
        text = self._texts.get(place)
        if text is None:
            module, backward, lines = place
            entry: dict = {"lines": [self._line(code, instruction) for instruction, code
                                     in zip(lines[-2::-2], lines[-1::-2], strict=True)]}
            if module:
                entry["module"] = module
            if backward:
                entry["backward"] = True
            text = ctypes.create_string_buffer(json.dumps(entry).encode())
            # The plugin may write it down after this module is gone.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(text))
            self._texts[place] = text
        return text

    def _line(self, identity: int, instruction: int) -> str:
        code, name = self._codes[identity]
        number = next((line for start, end, line in code.co_lines()
                       if line is not None and start <= instruction < end), code.co_firstlineno)
        return f"{name}:{number} {code.co_qualname}"
