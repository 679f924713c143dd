"""Standard streams of the command line: that nothing printed there ends a command."""

from __future__ import annotations

import os
import sys


def make_sound() -> None:
    """Open what is closed of the standard streams, on /dev/null, and let them print any text.

    Python leaves a stream out whose descriptor was closed when it started, as daemons do. What a
    job inherits stays closed. Letters that a stream cannot encode become escapes.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free; not inherited
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (open until the end)
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def print_result(text: str) -> None:
    """Print what a command has found; no error where nothing can be printed any more."""
    try:
        print(text, flush=True)
    except OSError:
        if not replace_broken():
            raise


def replace_broken() -> bool:
    """Send to /dev/null what can no longer be printed; return whether there is such a stream.

    Its reader has gone, or its disk is full. Python flushes the streams once more at its end.
    """
    found = False
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
            stream.flush()
            found = True
    return found
