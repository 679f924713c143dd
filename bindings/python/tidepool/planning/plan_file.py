"""Plan files, as docs/plans.md has them: written for solvers, and checked before a job starts."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

_VERSION = 1
_LAST_LINE = re.compile(rb'\{"end":(\d+),"crc32":"([0-9a-f]{8})"\}\n')


class PlanFileError(ValueError):
    """A file that is no plan, or a damaged one; the message says what is wrong."""


def checked_path(text: str) -> str:
    """Return the path of a whole plan file of a version that is known.

    Raises:
        PlanFileError: it is none.
    """
    path = Path(text)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PlanFileError(f"cannot be read: {error.strerror}") from None
    if not content.startswith(b'{"tidepool_plan":'):
        raise PlanFileError("is no plan file")
    before, _, last = content[:-1].rpartition(b"\n")
    before, last = before + b"\n", last + content[-1:]
    end = _LAST_LINE.fullmatch(last)
    if end is None:
        raise PlanFileError("is cut short")
    if int(end[2], 16) != zlib.crc32(before) or int(end[1]) != before.count(b"\n") - 1:
        raise PlanFileError("is damaged, or was changed by hand")
    try:
        version = json.loads(before.partition(b"\n")[0])["tidepool_plan"]
    except (ValueError, RecursionError):
        raise PlanFileError("has a first line that is no JSON") from None
    if version != _VERSION:
        raise PlanFileError(f"has version {version}, expected {_VERSION}")
    return text


def text_of(heading: dict, steps: Sequence[dict]) -> str:
    """Return the file of these plans, with its checksum."""
    lines = [{"tidepool_plan": _VERSION, **heading}, *steps]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    return f'{text}{{"end":{len(steps)},"crc32":"{zlib.crc32(text.encode()):08x}"}}\n'


def may_replace(path: Path) -> bool:
    """Return whether nothing but a plan file would be lost by writing there."""
    if not path.exists():
        return True
    return path.is_file() and path.read_bytes()[:17] in (b"", b'{"tidepool_plan":')
