"""Make a copy of the sources with all mutants in it, picked by TIDEPOOL_MUTANT at run time.

`python3 tests/mutants/mutant_sources.py FOLDER` makes or refreshes it: links to our files, but
copies of those that a mutant changes. CMake is run on the copy (`./dev test --full`). Without a
FOLDER it only says whether every mutant's text is still in the sources (`./dev lint`).
"""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from mutants import MUTANTS, Form, Mutant, Place

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("CMakeLists.txt", "CMakePresets.json", "allocator", "bench", "bindings", "cmake", "cuda",
          "remat", "tests")
LEFT_OUT = {"lib", "__pycache__"}
NAMES_HEADER = "tests/mutants/mutant_names.h"
# The package would take the variable that picks a mutant for a misspelt setting.
SETTINGS = "bindings/python/tidepool/settings/_catalog.py"
RESERVED = ("RESERVED = (", "PASSIVE = (")


class MisplacedError(ValueError):
    """A place of a mutant that is not in the sources as the table has it."""


def with_bugs(text: str, places: Iterable[tuple[str, Place]]) -> str:
    """Build bugs into a C++ source.

    Args:
        text: the source
        places: names of mutants, and where in this file each has a bug
    Returns:
        The source in which a process that runs such a mutant meets its bug.
    Raises:
        MisplacedError: a text is not there exactly once, two overlap, or one that is to be an
            expression is a statement.
    """
    edits: dict[tuple[int, int], str] = {}  # from where to where, what stands there instead
    for name, place in places:
        count = text.count(place.text)
        if count != 1:
            raise MisplacedError(f"{name}: found {count} times instead of once in {place.file}: "
                                 f"{place.text!r}")
        if place.form is Form.INSTEAD and (";" in place.text or ";" in place.bug):
            raise MisplacedError(f"{name}: no expression: {place.text!r}")
        start = text.index(place.text)
        end = start + len(place.text)
        runs = f'::tidepool::mutants::is("{name}")'
        if place.form is Form.INSTEAD:
            otherwise = edits.get((start, end), f"({place.text})")
            edits[start, end] = f"({runs} ? ({place.bug}) : {otherwise})"
        else:
            at = start if place.form is Form.BEFORE else end
            edits[at, at] = edits.get((at, at), "") + f"if ({runs}) {{ {place.bug} }}\n"
    made, done = [], 0
    for (start, end), bugs in sorted(edits.items()):
        if start < done:
            raise MisplacedError(f"places of mutants overlap before {text[done:][:60]!r}")
        made += [text[done:start], bugs]
        done = end
    return "".join([*made, text[done:]])


def mutated_sources(mutants: Sequence[Mutant] = MUTANTS) -> dict[str, str]:
    """Return what the copy has otherwise than we, or has alone, by path from the root.

    Raises:
        MisplacedError: as with_bugs does.
    """
    by_file: dict[str, list[tuple[str, Place]]] = {}
    for mutant in mutants:
        for place in mutant.places:
            by_file.setdefault(place.file, []).append((mutant.name, place))
    made = {}
    for file, places in by_file.items():
        text = with_bugs((ROOT / file).read_text(encoding="utf-8"), places)
        made[file] = f'#include "tests/mutants/mutant.h"\n#line 1\n{text}'
    names = "".join(f'    "{mutant.name}",\n' for mutant in mutants)
    made[NAMES_HEADER] = ("#pragma once\n\nnamespace tidepool::mutants {\n\n"
                          "// The first is that of no mutant.\n"
                          f'constexpr const char* kNames[] = {{\n    "",\n{names}}};\n\n'
                          "}  // namespace tidepool::mutants\n")
    settings = (ROOT / SETTINGS).read_text(encoding="utf-8")
    for start in RESERVED:
        if settings.count(f"\n{start}") != 1:
            raise MisplacedError(f"{SETTINGS} does not have one line that starts with {start}")
        settings = settings.replace(f"\n{start}", f'\n{start}"mutant", ')
    return made | {SETTINGS: settings}


def our_files() -> set[str]:
    """Return the paths from the root of what is to be in the copy."""
    found = set()
    for name in COPIED:
        top = ROOT / name
        paths = [top] if top.is_file() else [
            Path(folder, file) for folder, _, files in os.walk(top) for file in files
            if not LEFT_OUT & set(Path(folder).relative_to(ROOT).parts)]
        found |= {path.relative_to(ROOT).as_posix() for path in paths}
    return found


def make(folder: Path) -> None:
    """Make the copy, or change of it only what is not as it should be."""
    texts = mutated_sources()
    files = our_files() | texts.keys()
    for path in [path for path in folder.rglob("*") if not path.is_dir()]:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for file in sorted(files):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if file not in texts:
            if not path.is_symlink():
                path.unlink(missing_ok=True)
                path.symlink_to(ROOT / file)
        elif path.is_symlink() or not path.exists() or path.read_text() != texts[file]:
            path.unlink(missing_ok=True)
            path.write_text(texts[file], encoding="utf-8")


if __name__ == "__main__":
    try:
        if len(sys.argv) > 1:
            make(Path(sys.argv[1]).absolute())
        else:
            mutated_sources()
    except MisplacedError as error:
        sys.exit(f"mutant_sources: {error}")
