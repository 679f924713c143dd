"""The command `tidepool-replay`: starts the program that the package carries."""

import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[1] / "lib" / "tidepool-replay"


def main() -> int:
    """Become the program; return an exit status only if that fails."""
    try:
        os.execv(PROGRAM, ["tidepool-replay", *sys.argv[1:]])
    except OSError as error:
        print(f"tidepool-replay: cannot start {PROGRAM}: {error.strerror}", file=sys.stderr)
    return 1
