"""Compiling small libraries for tests, which are preloaded into jobs or loaded by them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

LIBRARIES = Path(__file__).resolve().parents[2] / "build" / "test_libraries"


def compile_library(path: Path, *flags: str) -> Path:
    """Return the shared library of a C or C++ file, compiled if it has changed."""
    compiler = ["gcc"] if path.suffix == ".c" else ["g++", "-std=c++20"]
    command = [*compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
               "-fvisibility=hidden", str(path)]
    mark = hashlib.sha256(path.read_bytes() + repr((command, flags)).encode()).hexdigest()[:12]
    library = LIBRARIES / f"{path.stem}_{mark}.so"
    if not library.exists():
        LIBRARIES.mkdir(parents=True, exist_ok=True)
        unfinished = library.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, *flags, "-o", str(unfinished)], check=True)
        os.replace(unfinished, library)
    return library
