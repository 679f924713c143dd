"""Compare the calls of two runs with value kernels (tests/support/value_kernels.py)."""

from __future__ import annotations

from collections.abc import Sequence


def strange_calls(plain: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the calls of a run that read what no call of a plain run has read, in their order.

    Where a run restores by running operators again, it makes more calls, but none that is strange.
    The first one has read a wrong value: all before it is right. The writer may be at fault, or
    who brought the value back.

    Args:
        plain, other: the lines of files that VALUE_KERNELS_TRACE named.
    """
    known = set(plain)
    return [call for call in other if call not in known]
