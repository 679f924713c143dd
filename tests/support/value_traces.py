"""Compare what VALUE_KERNELS_TRACE wrote in two runs (tests/support/value_kernels.py)."""

from __future__ import annotations

from pathlib import Path


def strange_calls(plain: str | Path, other: str | Path) -> list[str]:
    """Return the calls of a run that read what no call of a plain run has read, in their order.

    Where a run restores by running operators again, it makes more calls, but none that is strange.
    The first one has read a wrong value: all before it is right. The writer may be at fault, or
    who brought the value back.

    Args:
        plain, other: files that VALUE_KERNELS_TRACE named.
    """
    known = set(Path(plain).read_text().splitlines())
    return [line for line in Path(other).read_text().splitlines() if line not in known]
