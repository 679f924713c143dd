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
        if hasattr(stream, "reconfigure"):  # tests put others in their place
            stream.reconfigure(errors="backslashreplace")


def print_result(text: str) -> None:
    """Print what a command has found; no error where its reader has gone."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # Python flushes once more at its end
        os.close(nowhere)
