"""What a machine offers to a process: memory and its limits, and what is preloaded."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from ..settings import _sizes

_ALLOCATORS = re.compile(r"(jemalloc|tcmalloc|mimalloc|tbbmalloc|hoard|snmalloc)")


def facts(environ: Mapping[str, str], root: Path = Path("/")) -> dict:
    """Return what is known of the machine; sizes are bytes, and None means no limit.

    `root` stands for the file system's root, so that tests can bring their own.
    """
    memory = _sizes.meminfo(root, "MemTotal")
    limits = [limit for limit, _ in _sizes.cgroup_limits(root) if memory is None or limit < memory]
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "memory_bytes": memory,
        "available_bytes": _sizes.meminfo(root, "MemAvailable"),
        "cgroup_bytes": min(limits, default=None),
        "address_bytes": None if addresses == resource.RLIM_INFINITY else addresses,
        "overcommit": _number(root / "proc/sys/vm/overcommit_memory"),
        "shared": _shared_memory(root / "dev/shm"),
        "preloaded": environ.get("LD_PRELOAD", "").replace(":", " ").split(),
    }


def other_allocators(preloaded: list[str]) -> list[str]:
    """Return those of the preloaded libraries that replace malloc."""
    return [path for path in preloaded if _ALLOCATORS.search(os.path.basename(path))]


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _shared_memory(path: Path) -> dict | None:
    try:
        found = shutil.disk_usage(path)
    except OSError:
        return None
    return {"total_bytes": found.total, "free_bytes": found.free}
