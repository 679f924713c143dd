"""Check that binaries need no symbol that an older system's C and C++ libraries lack.

    python3 needed_symbols.py FILE...

Red Hat 9 and its like have glibc 2.34 and the C++ library of GCC 11. Prints what is too new, and
which folders a file names that only this machine has; exit status 1 if there is anything.
"""

import re
import subprocess
import sys
from collections.abc import Iterator

NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}
UNDEFINED = re.compile(r"\*UND\*.*\((GLIBC|GLIBCXX|CXXABI)_([\d.]+)\) (\S+)$")
RUN_PATH = re.compile(r"Library r(?:un)?path: \[(.*)\]")


def too_new(file: str) -> Iterator[tuple[str, str]]:
    """Yield the undefined symbols of a file that need a newer library, each with its version."""
    done = subprocess.run(["objdump", "-T", file], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        if found := UNDEFINED.search(line):
            library, version, symbol = found.groups()
            if tuple(map(int, version.split("."))) > NEWEST[library]:
                yield symbol, f"{library}_{version}"


def foreign_folders(file: str) -> list[str]:
    """Return the folders in which a file looks for libraries and that do not go with it."""
    done = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True)
    return [folder for paths in RUN_PATH.findall(done.stdout) for folder in paths.split(":")
            if not folder.startswith("$ORIGIN")]


def main() -> int:
    problems = []
    for file in sys.argv[1:]:
        problems += [f"{file}: {symbol} of {version}" for symbol, version in too_new(file)]
        problems += [f"{file}: looks for libraries in {folder}" for folder in foreign_folders(file)]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
