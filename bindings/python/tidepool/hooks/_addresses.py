"""Which places of a job keep a tensor's address, and which only look at its alignment.

`tensor.data_ptr() % 16` gives a number that nobody can write through. Launchers of kernels and
libraries that lay tensors out (DeepSpeed, Inductor) ask so. Whether a place does is read from its
bytecode: there the call of `data_ptr` is followed by simple loads alone, up to a remainder of which
the address is the left operand.
"""

from __future__ import annotations

import dis
import itertools
import types

_MOST = 10_000  # places that are remembered; of further ones every address counts as kept
# What may stand between a call and the remainder, beside loads.
_NOTHING = ("CACHE", "EXTENDED_ARG", "NOP")
_METHODS = ("LOAD_METHOD", "LOAD_ATTR")
_MOST_ALIGNMENT = 1 << 21  # a page; a remainder by far more is the address itself


class AddressPlaces:
    """The places that have asked for addresses. Not thread safe but for the GIL."""

    def __init__(self, plugin) -> None:
        self._note = plugin.library.tidepool_address_place
        self._known: dict[tuple[int, int], tuple[types.CodeType, bool]] = {}

    def keeps(self, frame: types.FrameType) -> bool:
        """Return whether the code that a frame is at may keep the address that it asks for."""
        place = (id(frame.f_code), frame.f_lasti)
        if (known := self._known.get(place)) is not None:
            return known[1]
        if len(self._known) >= _MOST:
            return True
        keeps = not takes_remainder(frame.f_code, frame.f_lasti)
        self._known[place] = frame.f_code, keeps  # its address must not be another one's
        self._note(*place, keeps)
        return keeps


def takes_remainder(code: types.CodeType, at: int) -> bool:
    """Return whether the instruction `at` calls `data_ptr`, of which only a remainder is taken."""
    instructions = [each for each in dis.get_instructions(code) if each.opname not in _NOTHING]
    # While it runs, a call may be at the words for caches that follow it.
    index = sum(each.offset <= at for each in instructions) - 1
    # Python 3.11 calls by two instructions, of which the first may do all.
    if instructions[index].opname == "PRECALL":
        index += 1
    if instructions[index].opname != "CALL" or instructions[index].arg != 0:
        return False
    before = (each for each in reversed(instructions[:index]) if each.opname != "PRECALL")
    method = next(before, None)
    if method is None or method.opname not in _METHODS or method.argval != "data_ptr":
        return False
    above = 0  # values that lie on the address
    for last, each in itertools.pairwise(instructions[index:]):
        if each.opname == "BINARY_OP" and each.argrepr == "%" and above == 1:
            is_constant = last.opname == "LOAD_CONST" and isinstance(last.argval, int)
            return not (is_constant and last.argval > _MOST_ALIGNMENT)
        if not each.opname.startswith(("LOAD_", "BINARY_", "UNARY_")):
            return False
        above += dis.stack_effect(each.opcode, each.arg)
        if above < 1:  # it has been read
            return False
    return False
