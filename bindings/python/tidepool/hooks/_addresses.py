"""Which places of a job keep a tensor's address, and which look at its alignment or use it at once.

`tensor.data_ptr() % 16` gives a number that nobody can write through. Launchers of kernels and
libraries that lay tensors out (DeepSpeed, Inductor) ask so. Whether a place does is read from its
bytecode: there the call of `data_ptr` is followed by simple loads alone, up to a remainder of which
the address is the left operand. What the loads give is looked up each time, because a remainder by
a large number is the address itself; where that cannot be done without the job's own code, the
address counts as kept. A few functions of libraries are known to let go of it when they are done.
"""

from __future__ import annotations

import dis
import itertools
import operator
import types

_MOST = 10_000  # places that are remembered; of further ones every address counts as kept
# Functions that have bytes written to a file at the address, of parameters mostly.
_USE_AT_ONCE = {("safetensors.torch", "_to_ndarray"), ("safetensors.torch", "_tobytes")}
# What may stand between a call and the remainder, beside loads.
_NOTHING = ("CACHE", "EXTENDED_ARG", "NOP")
_METHODS = ("LOAD_METHOD", "LOAD_ATTR")
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_MOST_ALIGNMENT = 1 << 21  # a page; a remainder by far more is the address itself
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
               "<<": operator.lshift}
_MOST_BITS = 64  # of the numbers that are computed with


class AddressPlaces:
    """The places that have asked for addresses. Not thread safe but for the GIL."""

    def __init__(self, plugin) -> None:
        self._note = plugin.library.tidepool_address_place
        # What is known of a place for good, or the instructions that give the divisor.
        self._known: dict[tuple[int, int], tuple[types.CodeType, bool | list]] = {}

    def keeps(self, frame: types.FrameType) -> bool:
        """Return whether the code that a frame is at may keep the address that it asks for."""
        place = (id(frame.f_code), frame.f_lasti)
        if (known := self._known.get(place)) is not None:
            verdict = known[1]
            return verdict if isinstance(verdict, bool) else not _is_alignment(verdict, frame)
        if len(self._known) >= _MOST:
            return True
        divisor = _divisor(frame.f_code, frame.f_lasti)
        if divisor is None:
            keeps = not _is_used_at_once(frame)
        else:
            keeps = not _is_alignment(divisor, frame)
        # The code is kept, because its address must not be another one's.
        if divisor is not None and any(each.opname not in _CONSTANTS for each in divisor):
            self._known[place] = frame.f_code, divisor
        else:
            self._known[place] = frame.f_code, keeps
            self._note(*place, keeps)
        return keeps


def _is_used_at_once(frame: types.FrameType) -> bool:
    return (frame.f_globals.get("__name__"), frame.f_code.co_name) in _USE_AT_ONCE


def takes_remainder(frame: types.FrameType) -> bool:
    """Return whether a frame calls `data_ptr`, of which only a small remainder is taken."""
    divisor = _divisor(frame.f_code, frame.f_lasti)
    return divisor is not None and _is_alignment(divisor, frame)


def _divisor(code: types.CodeType, at: int) -> list[dis.Instruction] | None:
    """Return what is between the call of `data_ptr` at `at` and the remainder of its result."""
    instructions = [each for each in dis.get_instructions(code) if each.opname not in _NOTHING]
    # While it runs, a call may be at the words for caches that follow it.
    index = sum(each.offset <= at for each in instructions) - 1
    # Python 3.11 calls by two instructions, of which the first may do all.
    if instructions[index].opname == "PRECALL":
        index += 1
    if instructions[index].opname != "CALL" or instructions[index].arg != 0:
        return None
    before = (each for each in reversed(instructions[:index]) if each.opname != "PRECALL")
    method = next(before, None)
    if method is None or method.opname not in _METHODS or method.argval != "data_ptr":
        return None
    above = 0  # values that lie on the address
    for k, each in enumerate(itertools.islice(instructions, index + 1, None), index + 1):
        if each.opname == "BINARY_OP" and each.argrepr == "%" and above == 1:
            return instructions[index + 1:k]
        if not each.opname.startswith(("LOAD_", "BINARY_", "UNARY_")):
            return None
        above += dis.stack_effect(each.opcode, each.arg)
        if above < 1:  # it has been read
            return None
    return None


def _is_alignment(divisor: list[dis.Instruction], frame: types.FrameType) -> bool:
    stack: list = []
    try:
        for each in divisor:
            _run(each, stack, frame)
    except Exception:  # it is not known, or the job will find the same; nothing has been changed
        return False
    return (len(stack) == 1 and type(stack[0]) is int
            and 0 < abs(stack[0]) <= _MOST_ALIGNMENT)


def _run(instruction: dis.Instruction, stack: list, frame: types.FrameType) -> None:
    """Do what an instruction does, with plain values alone.

    Raises:
        Exception: the job's own code might have to run for it, or it is not known here.
    """
    name, value = instruction.opname, instruction.argval
    if name in _CONSTANTS:
        stack.append(value)
    elif name in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF") or name.startswith("LOAD_FAST"):
        names = (value,) if isinstance(value, str) else value  # two, by one instruction
        local = name != "LOAD_GLOBAL"
        spaces = ((frame.f_locals,) if local else ()) + (frame.f_globals, frame.f_builtins)
        stack += [next(space[each] for space in spaces if each in space) for each in names]
    elif name == "LOAD_ATTR":
        stack.append(object.__getattribute__(stack.pop(), "__dict__")[value])
    elif name == "UNARY_NEGATIVE":
        stack.append(-_number(stack.pop()))
    elif name == "BINARY_SUBSCR" or instruction.argrepr == "[]":
        index, container = stack.pop(), stack.pop()
        if type(container) not in (tuple, list, dict) or type(index) not in (int, str):
            raise LookupError
        stack.append(container[index])
    elif name == "BINARY_OP":
        right, left = _number(stack.pop()), _number(stack.pop())
        stack.append(_ARITHMETIC[instruction.argrepr](left, right))
    else:
        raise LookupError


def _number(value) -> int:
    if type(value) is not int or value.bit_length() > _MOST_BITS:
        raise LookupError
    return value
