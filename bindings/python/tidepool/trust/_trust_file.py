"""Trust files: what `tidepool verify --trust FILE` has found of a job's own operators.

A file holds for one version of PyTorch which operators were checked, with what source, and what was
seen; and a digest of all that, so that a damaged file is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import fields as dataclass_fields
from pathlib import Path

_FORMAT = 1


class TrustFileError(ValueError):
    """A file that is no trust file, or a damaged one; the message says what is wrong."""


@dataclass
class Checked:
    """What was found of one operator.

    Attributes:
        reason: why it is kept; "" if it is trusted.
        source: what defines it (a file's name), and that file's digest.
        calls: how many calls of the job were run again.
        runs: how often it ran in all.
        shapes: of the operands, as far as room is made for them.
    """

    reason: str = ""
    source: str = ""
    digest: str = ""
    calls: int = 0
    runs: int = 0
    shapes: list[str] = field(default_factory=list)


def write(path: Path, torch: str, operators: Mapping[str, Checked]) -> None:
    """Write a trust file for a version of PyTorch; an old one is replaced as a whole."""
    content = {"format": _FORMAT, "torch": torch,
               "operators": {name: asdict(operators[name]) for name in sorted(operators)}}
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps({"tidepool_trust": content, "digest": _digest(content)}, indent=1)
                    + "\n", encoding="utf-8")
    part.replace(path)


def read(path: Path) -> tuple[str, dict[str, Checked]]:
    """Return the version of PyTorch and the operators of a trust file.

    Raises:
        TrustFileError: it cannot be read, is no trust file, or is damaged.
    """
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TrustFileError(f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise TrustFileError("is no trust file, or a damaged one") from None
    content = whole.get("tidepool_trust") if isinstance(whole, dict) else None
    if not isinstance(content, dict):
        raise TrustFileError("is no trust file")
    if content.get("format") != _FORMAT:
        raise TrustFileError(f"has format {content.get('format')}, expected {_FORMAT}")
    if whole.get("digest") != _digest(content):
        raise TrustFileError("is damaged, or was changed by hand (to trust an operator "
                             "unchecked, give --replay)")
    try:
        return str(content["torch"]), {name: _checked(each)
                                       for name, each in content["operators"].items()}
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise TrustFileError(f"has wrong fields: {error}") from None


def _checked(fields: Mapping) -> Checked:
    """Return what a file says of an operator; raise TypeError if a field is missing or wrong."""
    found = Checked(**fields)
    for each in dataclass_fields(Checked):
        if type(getattr(found, each.name)) is not type(getattr(Checked(), each.name)):
            raise TypeError(f"{each.name} is {getattr(found, each.name)!r}")
    return found


def checked_path(text: str) -> str:
    """Return the path of a trust file; raise TrustFileError if it is none."""
    read(Path(text))
    return text


def operators_in(text: str) -> tuple[str, ...]:
    """Return the operators in a list such as "mylib::op,mylib::other.Tensor".

    Raises:
        ValueError: something else is in it.
    """
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not re.fullmatch(r"\w+::\w+(\.\w+)?", name) or name.startswith("aten::"):
            raise ValueError("expected operators outside of aten, such as mylib::op, joined by "
                             "commas")
    return names


def merged(paths: Sequence[Path]) -> tuple[str, dict[str, Checked]]:
    """Return the version of PyTorch, and what the processes of a job found, each in its own file.

    An operator is trusted if all of them that called it trust it.
    """
    version = ""
    operators: dict[str, Checked] = {}
    for path in paths:
        version, found = read(path)
        for name, checked in found.items():
            before = operators.setdefault(name, checked)
            if before is checked:
                continue
            before.reason = before.reason or checked.reason
            if before.digest != checked.digest:
                before.reason = before.reason or "processes of the job define it differently"
            before.calls += checked.calls
            before.runs += checked.runs
            before.shapes += [each for each in checked.shapes if each not in before.shapes]
    return version, operators


def may_replace(path: Path) -> bool:
    """Return whether nothing but a trust file would be lost by writing there."""
    if not path.exists():
        return True
    try:
        read(path)
    except TrustFileError:
        return b'"tidepool_trust"' in path.read_bytes()[:100] if path.is_file() else False
    return True


def _digest(content: dict) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
