"""The settings of a process: where they come from, how they are checked, and errors that help.

_catalog.py lists them. Sources, the strongest first: arguments of a call or command, TIDEPOOL_*
variables, `tidepool_*` keys in PyTorch's allocator settings.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ..planning import plan_file
from ..trust import _trust_file
from . import _offload, _sizes, _trace_file
from ._catalog import (
    ALLOCATORS,
    AUTO,
    CHAOS,
    DEFAULT_POLICY,
    DEVICES,
    EXPECTED,
    KEYS,
    NEED_EVICTION,
    NO,
    NO_POLICY,
    OLD_KEYS,
    PASSIVE,
    POLICIES,
    PREFIX,
    RECORD_SIZE,
    REQUIRED,
    RESERVED,
    ROOM,
    SETTINGS,
    SUFFICIENT_ROOM,
    YES,
    Setting,
)
from ._policies import OLD_POLICIES

_PARTS = 10**9  # a device's memory, while its size is not known
_LEAST_PAGE = 4096
_MOST_BYTES = 16 << 40  # of an arena
_MOST_NUMBER = 2**32 - 1


class SettingsError(ValueError):
    """A setting that cannot be used; the message names it and what would be right."""


@dataclass(frozen=True)
class Settings:
    """Checked settings of one process, sizes in bytes."""

    budget_bytes: int = 0
    budget_share: float = 0.0  # of a GPU's memory, where that is what was given
    budget_auto: bool = False  # what there is; budget_bytes has it on the CPU
    device: str = "cpu"
    policy: str = POLICIES[0]
    plan: str | None = None  # a plan file
    chaos: str = "none"
    stats: str | None = None
    trace: str | None = None  # a file for the job's trace
    trace_steps: tuple[int, int | None] = (1, None)  # the first and the last that it has
    record: str | None = None  # a file for what is done for the job
    record_bytes: int = _sizes.parse_size(RECORD_SIZE)
    room: tuple[str, ...] = ROOM
    entries: Mapping[str, object] = field(default_factory=dict)  # see Setting.entry; no defaults
    quiet: bool = False
    top: bool = False
    offload: _offload.Tier | None = None
    trust: str | None = None  # a trust file
    replay: tuple[str, ...] = ()  # operators
    keep: tuple[str, ...] = ()

    @property
    def allocator(self) -> str:
        """Return what serves requests."""
        return str(self.entries.get("allocator", ALLOCATORS[0]))

    def trusts(self) -> bool:
        """Return whether operators of the job's may be run again."""
        return self.trust is not None or bool(self.replay)

    def rematerializes(self) -> bool:
        """Whether operators are watched, so that tensors can be evicted and restored."""
        return self.policy != NO_POLICY and self.allocator == "arena"

    def for_plugin(self) -> dict:
        """Return what the plugin's `tidepool_attach` reads."""
        values: dict = {"device": self.device, "budget_bytes": self.budget_bytes,
                        "chaos": self.chaos}
        for entry, value in self.entries.items():
            part, _, name = entry.rpartition(".")
            (values.setdefault(part, {}) if part else values)[name] = value
        if self.rematerializes():
            values["policy"] = self.policy
            if self.plan:
                values["plan"] = self.plan
        else:
            values["rematerialize"] = False
        if self.budget_share:
            values["budget_share"] = self.budget_share
        if self.budget_auto and self.device == "cuda":
            values["budget_auto"] = True
        values.update({f"allow_{way}": False for way in ROOM if way not in self.room})
        if self.offload:
            values["offload"] = self.offload.for_plugin()
        if self.trusts():
            values["compares_restored"] = True
        return values

    def as_resolved_before(self, other: Settings) -> Settings:
        """Return these with what `auto` was for the other, if that has such a budget, too."""
        if not (self.budget_auto and other.budget_auto):
            return self
        return replace(self, budget_bytes=other.budget_bytes)

    def describe(self) -> str:
        """Return budget, device, policy and chaos as one phrase."""
        where = "each cuda device" if self.device == "cuda" else self.device
        text = f"budget {self.describe_budget()} on {where}"
        if self.allocator == "native":
            text += ", by PyTorch's own allocator"
        if not self.rematerializes():
            return f"{text}, nothing is evicted"
        text += f", policy {self.policy}"
        if self.offload:
            text += f", offload {self.offload.describe()}"
        return text if self.chaos == "none" else f"{text}, chaos {self.chaos}"

    def describe_budget(self) -> str:
        """Return the budget as a user would write it."""
        if self.budget_share:
            return f"{self.budget_share * 100:g}%"
        if not self.budget_auto:
            return _sizes.format_size(self.budget_bytes)
        if self.device == "cuda":
            return AUTO
        return f"{AUTO} ({_sizes.format_size(self.budget_bytes, exact=False)})"


def nearest(word: str, valid: tuple[str, ...]) -> str:
    """Return ", did you mean X?" for the valid word nearest to `word`, or nothing."""
    found = difflib.get_close_matches(word.lower(), [v.lower() for v in valid], 1, 0.5)
    return f", did you mean {next(v for v in valid if v.lower() == found[0])}?" if found else ""


def asked_for(environ: Mapping[str, str]) -> bool:
    """Return whether the environment asks for Tidepool (or tries to, misspelt)."""
    for name in _names_in(environ):
        key = name[len(PREFIX):].lower()
        if key in PASSIVE:
            continue
        if key in KEYS or key in OLD_KEYS or key in RESERVED or nearest(key, KEYS):
            return True
    return False


def required(environ: Mapping[str, str]) -> bool:
    """Return whether a process that cannot have Tidepool must end, rather than run without it."""
    return environ.get(REQUIRED, "").strip().lower() not in ("", *NO)


def resolve(arguments: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """Return checked settings from a call's arguments and, behind them, the environment.

    Args:
        arguments: settings by key; None means not given.
        environ: after `_conf.take_from_conf`.

    Raises:
        SettingsError: names the input.
    """
    given: dict[str, tuple[str, str]] = {}  # key -> (where it was given, text)
    for name in _names_in(environ):
        key = name[len(PREFIX):].lower()
        key = OLD_KEYS.get(key, key)
        if name != name.upper() or (key not in KEYS and key not in RESERVED):
            valid = tuple(PREFIX + k.upper() for k in KEYS)
            raise SettingsError(f"unknown setting {name}{nearest(name, valid)} "
                                f"(known: {', '.join(valid)})")
        if environ[name].strip():
            given[key] = (name, environ[name].strip())
    for key, value in arguments.items():
        if value is not None:
            given[key] = (key, str(value).strip())
    for key in ("trace", "record", "plan", "offload"):  # of which C++ is told in UTF-8
        if key in given and any("\ud800" <= letter <= "\udfff" for letter in given[key][1]):
            raise _wrong(*given[key], "expected a path in UTF-8")
    return _check(given)


def _names_in(environ: Mapping[str, str]) -> list[str]:
    return [name for name in environ if name.startswith(PREFIX) and environ[name].strip()]


def _check(given: Mapping[str, tuple[str, str]]) -> Settings:
    device = _device(given)
    budget = _budget(given, device)
    settings = Settings(
        **budget,
        device=device,
        policy=_policy(given),
        plan=_parsed(given, "plan", plan_file.checked_path),
        chaos=_chaos(given),
        stats=given["stats"][1] if "stats" in given else None,
        trace=given["trace"][1] if "trace" in given else None,
        trace_steps=_parsed(given, "trace_steps", _trace_file.steps_in, (1, None)),
        record=given["record"][1] if "record" in given else None,
        record_bytes=_size(given.get("record_size", ("", RECORD_SIZE)), None),
        room=_room(given),
        entries=_entries(given),
        quiet=_flag(given, "quiet"),
        top=_flag(given, "top"),
        offload=_parsed(given, "offload", _offload.parse),
        trust=_parsed(given, "trust", _trust_file.checked_path),
        replay=_parsed(given, "replay", _trust_file.operators_in, ()),
        keep=_parsed(given, "keep", _trust_file.operators_in, ()),
    )
    _flag(given, "required")  # read by `required`, which takes what is not 0 for 1
    for key in NEED_EVICTION:
        if getattr(settings, key) not in (None, "none") and not settings.rematerializes():
            raise _wrong(*given[key], "expected none where nothing is evicted: "
                                      f"policy {settings.policy}, allocator {settings.allocator}")
    for key, other in (("trace_steps", "trace"), ("record_size", "record")):
        if key in given and other not in given:
            raise _wrong(*given[key], f"expected the setting {other} with it")
    if "keep" in given and not settings.trusts():
        raise _wrong(*given["keep"], "expected the setting trust or replay with it")
    if settings.plan and (settings.policy != POLICIES[0] or settings.trace):
        raise _wrong(*given["plan"], f"expected policy {POLICIES[0]}, and no trace")
    if device == "cpu" and settings.policy == NO_POLICY:
        raise _wrong(*given["policy"], "on cpu expected one that evicts, or device cuda")
    if settings.offload and settings.offload.device != device:
        other = "file:FOLDER:SIZE" if device == "cpu" else "host:SIZE"
        raise _wrong(*given["offload"], f"on {device} expected {other}")
    if settings.chaos.startswith("offload") and not settings.offload:
        raise _wrong(*given["chaos"], "expected the setting offload with it")
    if device != "cpu" and settings.trusts():
        raise _wrong(*given["trust" if settings.trust else "replay"], "only on cpu so far")
    if device == "cpu" and settings.allocator != "arena":
        raise _wrong(*given["allocator"], "on cpu expected arena, or device cuda")
    _check_sizes(given, settings)
    return settings


def _check_sizes(given: Mapping[str, tuple[str, str]], settings: Settings) -> None:
    """Raise SettingsError for sizes with which no memory could be had: before a job has begun."""
    page, budget = settings.entries.get("page_bytes", _LEAST_PAGE), settings.budget_bytes
    assert isinstance(page, int)
    least, one, most = map(_sizes.format_size, (_LEAST_PAGE, page, _MOST_BYTES))
    if page < _LEAST_PAGE or page & (page - 1):
        raise _wrong(*given["page"], f"expected a power of two, at least {least}")
    if "budget" in given and budget > 0 and not page <= budget <= _MOST_BYTES:
        raise _wrong(*given["budget"], f"expected a page at least ({one}), and {most} at most")


def _entries(given: Mapping) -> dict[str, object]:
    """Return the plugin's entries that get their value from one setting, without defaults."""
    entries = {}
    for setting in SETTINGS:
        if not setting.entry or setting.key not in given:
            continue
        value = _value(given, setting)
        if value is not False and value not in setting.choices[:1]:
            entries[setting.entry] = value
    return entries


def _value(given: Mapping, setting: Setting) -> object:
    if setting.choices:
        return _one_of(given, setting.key, setting.choices, setting.choices[0])
    return VALUES[setting.value](given, setting.key)


def _wrong(origin: str, text: str, reason: str) -> SettingsError:
    return SettingsError(f"{origin} {text!r}: {reason}")


def _one_of(given: Mapping, key: str, valid: tuple[str, ...], default: str) -> str:
    if key not in given:
        return default
    origin, text = given[key]
    if text not in valid:
        raise _wrong(origin, text, f"expected one of {', '.join(valid)}{nearest(text, valid)}")
    return text


def _policy(given: Mapping) -> str:
    if "policy" in given and given["policy"][1] in OLD_POLICIES:
        return OLD_POLICIES[given["policy"][1]]
    name = _one_of(given, "policy", (*POLICIES, DEFAULT_POLICY, NO_POLICY), DEFAULT_POLICY)
    return POLICIES[0] if name == DEFAULT_POLICY else name


def _parsed(given: Mapping, key: str, parse, otherwise=None):
    if key not in given:
        return otherwise
    origin, text = given[key]
    try:
        return parse(text)
    except ValueError as error:
        raise _wrong(origin, text, str(error)) from None


def _room(given: Mapping) -> tuple[str, ...]:
    if "room" not in given:
        return ROOM
    origin, text = given["room"]
    ways = tuple(text.split("+"))
    for way in ways:
        if way not in ROOM:
            raise _wrong(origin, text, f"expected some of {', '.join(ROOM)}, joined by +"
                                       f"{nearest(way, ROOM)}")
    if not set(SUFFICIENT_ROOM) & set(ways):
        raise _wrong(origin, text, f"expected {' or '.join(SUFFICIENT_ROOM)} among them")
    return ways


def _device(given: Mapping) -> str:
    return _one_of(given, "device", DEVICES, "cuda" if gpu_is_visible() else "cpu")


def _size(source: tuple[str, str], device_bytes: int | None) -> int:
    return _parsed({"size": source}, "size",
                   lambda text: _sizes.parse_positive_size(text, device_bytes))


def _budget(given: Mapping, device: str) -> dict:
    """Return the fields of Settings that the budget has.

    A share of a GPU's memory, or what a GPU has, is known once there is one.
    """
    if "budget" in given:
        if given["budget"][1].lower() == AUTO:
            if device == "cuda":
                return {"budget_auto": True}
            return {"budget_auto": True, "budget_bytes": _sizes.cpu_budget_bytes()}
        if device == "cuda":
            size = _size(given["budget"], _PARTS)
            share = given["budget"][1].endswith("%")
            return {"budget_share": size / _PARTS} if share else {"budget_bytes": size}
        return {"budget_bytes": _size(given["budget"], _sizes.cpu_memory_bytes())}
    chaos = "chaos" in given and given["chaos"][1] != "none"
    if device == "cpu" and (chaos or "trace" in given):
        return {"budget_bytes": _sizes.cpu_memory_bytes()}  # neither needs pressure
    if device == "cuda" and (chaos or "backend" in given or "trace" in given):
        return {"budget_auto": True}  # or the caching allocator alone was asked for
    others = ", ".join(origin for key, (origin, _) in given.items() if key not in PASSIVE)
    beside = f" ({others} alone does not start Tidepool)" if others else ""
    raise SettingsError(f"no budget given{beside}: expected --budget, TIDEPOOL_BUDGET or budget=, "
                        "a size such as 8GiB or 80%, or auto")


def _chaos(given: Mapping) -> str:
    if "chaos" not in given:
        return "none"
    origin, text = given["chaos"]
    seeded = tuple(form.removesuffix(":SEED") for form in CHAOS if form.endswith(":SEED"))
    mode, colon, seed = text.partition(":")
    if re.fullmatch("[0-9]+", seed) and mode in seeded or not colon and mode in CHAOS:
        return text
    for mode in seeded:
        if text.startswith(mode):
            raise _wrong(origin, text,
                         f"expected {mode}:SEED with a whole number, such as {mode}:7")
    raise _wrong(origin, text, f"expected one of {', '.join(CHAOS)}{nearest(text, CHAOS)}")


def _flag(given: Mapping, key: str) -> bool:
    if key not in given:
        return False
    origin, text = given[key]
    if text.lower() in YES:
        return True
    if text.lower() in NO:
        return False
    raise _wrong(origin, text, f"expected {EXPECTED['1 or 0']}")


def _positive(source: tuple[str, str]) -> int:
    origin, text = source
    if not re.fullmatch(r"0*[0-9]{1,10}", text) or not 0 < int(text) <= _MOST_NUMBER:
        raise _wrong(origin, text, f"expected {EXPECTED['NUMBER']}")
    return int(text)


# How the value of a setting with an `entry` is read, by what it looks like.
VALUES: dict[str, Callable[[Mapping, str], object]] = {
    "1 or 0": _flag,
    "NUMBER": lambda given, key: _positive(given[key]),
    "SIZE": lambda given, key: _size(given[key], None),
}


def default_budget(given: Mapping[str, object], environ: Mapping[str, str]) -> str | None:
    """Return the budget of a job that is to have Tidepool and names none; None: it has to.

    Args:
        given: settings by key; None means not given.
        environ: after `_conf.take_from_conf`.
    """
    device = str(given.get("device") or environ.get(PREFIX + "DEVICE") or "").strip()
    on_cuda = device == "cuda" if device else gpu_is_visible()
    return AUTO if on_cuda else None


def gpu_is_visible() -> bool:
    """Return whether a CUDA job would find a GPU here, without loading CUDA."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1", "NoDevFiles"):
        return False
    return bool(glob.glob("/dev/nvidia[0-9]*") or os.path.exists("/dev/dxg"))
