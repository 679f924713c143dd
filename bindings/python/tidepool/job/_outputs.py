"""Files that a job is told to write: nothing of a user's is replaced by them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ..settings import _places, _trace_file
from ..settings._settings import Settings, SettingsError
from . import _stats_file

_KINDS: dict[str, tuple[str, Callable[[Path], bool]]] = {
    "stats": ("statistics file", _stats_file.may_replace),
    "trace": ("trace", _trace_file.may_replace),
    "record": ("recording", _trace_file.may_replace_recording),
}


def check(settings: Settings, prefix: str = "", keys: Iterable[str] = tuple(_KINDS)) -> None:
    """Raise SettingsError if a file is there in the place of one of the job's that is none of ours.

    Args:
        prefix: of the settings' names, where they were given.
        keys: the settings.
    """
    for key in keys:
        path, (kind, may_replace) = getattr(settings, key), _KINDS[key]
        if path is None:
            continue
        if problem := _places.obstacle(path):
            raise SettingsError(f"{prefix}{key} {path!r}: {problem}")
        if not may_replace(Path(os.path.abspath(path))):
            raise SettingsError(f"{prefix}{key} {path!r}: exists and is no {kind}")
