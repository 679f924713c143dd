"""Sizes as a user writes them, and how much memory a device has."""

from __future__ import annotations

import os
import re
from decimal import Decimal
from pathlib import Path, PurePosixPath

from ._catalog import EXPECTED, LEAST_RESERVE, RESERVE_PARTS, UNITS

_BY_LOWER_CASE = {unit.lower(): unit for unit in UNITS}
_SHAPE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*|%)\s*", re.ASCII)


def parse_size(text: str, device_bytes: int | None = None) -> int:
    """Return the bytes that `text` means.

    Args:
        text: a number with a unit (KiB is 1024, KB is 1000), plain bytes, or a percentage.
        device_bytes: what a percentage is taken of; None refuses percentages.

    Raises:
        ValueError: says what is wrong and what was expected, without naming the setting.
    """
    match = _SHAPE.fullmatch(text)
    if not match:
        raise ValueError(f"expected {EXPECTED['SIZE']}")
    number, unit = Decimal(match[1]), match[2]
    if unit == "%":
        return _share(number, device_bytes)
    if unit == "":
        if "." in match[1]:
            hint = f"; for a share of memory write {number * 100:f}%" if number <= 1 else ""
            raise ValueError(f"plain bytes must be a whole number{hint}")
        return int(number)
    if unit not in UNITS:
        raise ValueError(_unknown_unit(unit))
    return int(number * UNITS[unit])


def parse_positive_size(text: str, device_bytes: int | None = None) -> int:
    """Do what `parse_size` does; nothing at all is an error, too."""
    size = parse_size(text, device_bytes)
    if size == 0:
        raise ValueError("expected more than zero bytes")
    return size


def _share(percent: Decimal, device_bytes: int | None) -> int:
    if device_bytes is None:
        raise ValueError("a percentage has no meaning here: expected a size such as 2MiB")
    if not 0 < percent <= 100:
        raise ValueError("a percentage must be above 0% and at most 100%")
    return int(device_bytes * percent / 100)


def _unknown_unit(unit: str) -> str:
    lower = unit.lower()
    short = {"k": "KiB", "m": "MiB", "g": "GiB", "t": "TiB", "ki": "KiB", "mi": "MiB",
             "gi": "GiB", "ti": "TiB"}
    near = _BY_LOWER_CASE.get(lower) or short.get(lower)
    hint = f", did you mean {near}?" if near else ""
    return f"unknown unit {unit!r}{hint} (known: {', '.join(UNITS)} and %)"


def as_argument(size: int) -> str:
    """Return bytes exactly, as a command line takes them."""
    for name in ("GiB", "MiB", "KiB"):
        if size and size % UNITS[name] == 0:
            return f"{size // UNITS[name]}{name}"
    return str(size)


def format_size(size: int, exact: bool = True) -> str:
    """Write bytes for a reader: two decimals, or a whole number of the unit that divides them.

    `exact` prefers the dividing unit even where it is a decimal one: 8 GB is not 7.45 GiB.
    """
    for unit in ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB"):
        whole = size % UNITS[unit] == 0 and 0 < size // UNITS[unit] < 10240
        if whole and (exact or "i" in unit):
            return f"{size // UNITS[unit]} {unit}"
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size >= UNITS[unit]:
            return f"{size / UNITS[unit]:.2f} {unit}"
    return f"{size} B"


def cpu_memory_bytes(root: Path = Path("/")) -> int:
    """Return the memory that this process may use: the machine's, or its cgroup's limit if smaller.

    `root` stands for the file system's root, so that tests can bring their own.
    """
    limits = [limit for limit, _ in cgroup_limits(root)]
    return min([_physical_memory_bytes(root), *limits])


def cpu_budget_bytes(root: Path = Path("/")) -> int:
    """Return what this process may use and nobody is using now, less a reserve.

    The reserve, an eighth and at least 1 GiB (half, where there is less than 2 GiB), is for what is
    no tensor: the interpreter, libraries, files that the system keeps in memory.
    """
    free = [max(limit - used, 0) for limit, used in cgroup_limits(root)]
    available = min([meminfo(root, "MemAvailable") or _physical_memory_bytes(root), *free])
    reserve = max(available // RESERVE_PARTS, min(LEAST_RESERVE, available // 2))
    return available - reserve


def _physical_memory_bytes(root: Path) -> int:
    return (meminfo(root, "MemTotal")
            or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def meminfo(root: Path, name: str) -> int | None:
    """Return the bytes that the system reports under a name, such as MemTotal."""
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def cgroup_limits(root: Path) -> list[tuple[int, int]]:
    """Limits of this process's cgroup and of all above it, version 2 and version 1, and their use.

    Files that were not read lately do not count as used: the system takes their memory when it is
    wanted.

    In a container the path in /proc/self/cgroup may be the host's, of which only the end exists:
    whatever does not exist is skipped, and the mount's root is always looked at.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    limits = []
    for line in lines:
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers == "":
            mount, name, now = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            mount, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
            now = "memory.usage_in_bytes"
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for folder in (group, *group.parents):
            limit = _read_limit(mount / folder / name)
            if limit is not None:
                used = _read_limit(mount / folder / now) or 0
                limits.append((limit, used - _inactive_files(mount / folder / "memory.stat")))
    return limits


def _inactive_files(path: Path) -> int:
    try:
        for line in path.read_text().splitlines():
            if line.startswith(("inactive_file ", "total_inactive_file ")):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return 0


def _read_limit(path: Path) -> int | None:
    try:
        limit = int(path.read_text().strip())
    except (OSError, ValueError):  # no such group, or "max"
        return None
    return limit if limit > 0 else None
