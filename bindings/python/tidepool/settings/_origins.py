"""Where each setting comes from: which of several sources gave it, and which others lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import _catalog, _conf

DEFAULT = "default"


@dataclass(frozen=True)
class Origin:
    """One setting as it is in force."""

    key: str
    value: str  # as it was written; of a default, as the manual names it
    source: str  # the variable that gave it, or DEFAULT
    overridden: tuple[tuple[str, str], ...] = ()  # variables that lost, each with its value


def origins(environ: Mapping[str, str]) -> list[Origin]:
    """Return all settings, in the manual's order.

    Args:
        environ: before `take_from_conf`, so that PyTorch's variables still have our keys.
    """
    given: dict[str, list[tuple[str, str]]] = {}  # the strongest source first
    for name, value in environ.items():
        key = name.removeprefix(_catalog.PREFIX).lower()
        if name.startswith(_catalog.PREFIX) and value.strip():
            given.setdefault(_catalog.OLD_KEYS.get(key, key), []).insert(0, (name, value.strip()))
    for variable in _conf.CONF_VARIABLES:
        for key, value, _ in _conf.items_of(environ.get(variable, "")):
            if key.startswith("tidepool_"):
                key = key.removeprefix("tidepool_")
                given.setdefault(_catalog.OLD_KEYS.get(key, key), []).append((variable, value))
    return [_origin(setting, given.get(setting.key, [])) for setting in _catalog.SETTINGS]


def _origin(setting: _catalog.Setting, given: list[tuple[str, str]]) -> Origin:
    if not given:
        return Origin(setting.key, setting.default or "none", DEFAULT)
    (source, value), *others = given
    return Origin(setting.key, value, source, tuple(others))
