"""The settings: where they come from, what they may be, and errors that help.

Sources, the strongest first: arguments of a call or command, TIDEPOOL_* variables, `tidepool_*`
keys in PyTorch's allocator settings.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..planning import plan_file
from ..trust import _trust_file
from . import _offload, _sizes, _trace_file

# As in remat/policies/table/policy_table.cpp, which has the list; the default first. The baselines
# are for comparison.
OWN_POLICIES = ("planned", "needed-cost", "next-use")
POLICIES = (*OWN_POLICIES, "coop", "dtr", "dtr-eq", "dtr-local", "lru", "size", "msps", "dte",
            "delta", "random")
DEFAULT_POLICY = "default"  # another name for the first
NO_POLICY = "none"  # on cuda: a caching allocator with a budget, which evicts nothing
DEVICES = ("cpu", "cuda")
ROOM = ("windows", "moves", "remap")  # ways to make room, for comparison
PLANNING = ("background", "wait", "off")  # what `planned` does while the job runs
ALLOCATORS = ("arena", "native")  # on cuda; native: PyTorch's own under the budget, to debug
AUTO = "auto"  # a budget: what there is
PREFIX = "TIDEPOOL_"
REQUIRED = "TIDEPOOL_REQUIRED"  # 1: a process that cannot have Tidepool ends

# Names that settings and policies had before, which jobs may still give.
OLD_KEYS = {"handle": "page"}
OLD_POLICIES = {"need1": "needed-cost"}  # old name: kOldNames in policy_table.cpp

LIMITS = {"limit_depth": "depth", "limit_versions": "versions", "limit_age": "age_steps",
          "limit_records": "records"}  # setting -> the plugin's name


@dataclass(frozen=True)
class Setting:
    """One setting as users see it: the command line's help and docs/settings.md come from these."""

    key: str  # TIDEPOOL_KEY is its variable, tidepool_key its key in PyTorch's settings
    value: str  # what a value looks like
    default: str
    help: str  # a phrase, as the command line's help has it
    more: str = ""  # sentences in Markdown that only the manual has
    commands: tuple[str, ...] = ()  # that have it as an option; `enable` has what `run` has
    switch: str = ""  # the option, where it takes no value and has a name of its own

    @property
    def option(self) -> str:
        """Return the option's name on the command line."""
        return self.switch or "--" + self.key.replace("_", "-")


_BOTH = ("run", "verify")
SETTINGS = (
    Setting("budget", "SIZE", "auto if a GPU is visible, else none",
            "hard cap: 8GiB, 8GB, plain bytes, 60% or auto",
            "`auto`: as much as there is. On cuda nothing is evicted before the device has no more "
            "memory to give, but for a fiftieth of it (512 MiB at most) that is left to libraries; "
            "when others give memory back, it is used again. On the CPU it is what the process may "
            "use and nobody else is using at the start, less an eighth (1 GiB at least) for all "
            "that is no tensor. "
            "KiB is 1024 bytes, KB is 1000. `%` is of the memory that the process may use: the "
            "machine's, or its cgroup's limit if that is smaller; on cuda, of each device's memory."
            " It is per process: a process that the job starts has the same budget again, a forked "
            "child has none. Chaos or a trace needs no budget, and then has all memory.", _BOTH),
    Setting("policy", "NAME", POLICIES[0], f"what to evict: {', '.join(OWN_POLICIES)}",
            "`default` is another name for `planned`, and `need1` an old name of `needed-cost`. "
            "On cuda also `none`: a caching allocator "
            "with a budget, which evicts nothing. "
            "[What they do, and published ones to compare with](life-of-an-eviction.md#policies).",
            _BOTH),
    Setting("device", "NAME", "cuda if a GPU is visible, else cpu", "whose memory: cpu or cuda",
            "What is special on cuda: [the allocator](cuda-allocator.md), "
            "[rematerialization](cuda-rematerialization.md).", (*_BOTH, "probe")),
    Setting("offload", "WHERE:SIZE", "none", "where tensors go that are costly to recompute",
            "host:SIZE on cuda, page-locked memory for each device, and with "
            "host:SIZE,file:FOLDER:SIZE a file below it; file:FOLDER:SIZE on the CPU. "
            "Also what no operator can make again (parameters, gradients, the optimizer's state) "
            "is then evicted, by a copy, and results where reading costs less than recomputing. "
            "[What to expect](offload.md).", (*_BOTH, "probe")),
    Setting("trust", "FILE", "", "the job's own operators that may be run again (for verify: check "
            "them, and write the file)",
            "On the CPU. What operators outside of PyTorch make (`torch.library`, extensions) is "
            "kept, unless a file that `tidepool verify --trust FILE` has written says that running "
            "them again gave the same bits. "
            "[What is checked](guide.md#may-my-own-operators-be-run-again).", (*_BOTH, "probe")),
    Setting("replay", "OPERATORS", "", "operators to run again although they are not checked: "
            "mylib::op,mylib::other", "With `trust` or without.", (*_BOTH, "probe")),
    Setting("keep", "OPERATORS", "", "operators never to run again, whatever the file says", "",
            (*_BOTH, "probe")),
    Setting("stats", "FILE", "", "write statistics at exit, JSON",
            "[What is in it](guide.md#statistics).", ("run",)),
    Setting("trace", "FILE[.gz]", "", "record what the job does, for tidepool-replay; needs no "
            "budget", "[The format](trace-format.md).", ("run",)),
    Setting("trace_steps", "FIRST[:LAST]", "all",
            "record these steps only, counted from 1; FIRST: is all from there on", "", ("run",)),
    Setting("record", "FILE", "", "record what is done for the job, for tidepool report",
            "[What is in it](work-ring.md).", ("run",)),
    Setting("record_size", "SIZE", "64MiB", "how large the recording may be", "", ("run",)),
    Setting("chaos", "MODE", "none",
            "evict on purpose, for tests: op (the default of a bare --chaos), alloc, random:SEED, "
            "offload:SEED, or bounded[:SEED], with which jobs of any length end; give it as "
            "--chaos=MODE",
            "`op` evicts everything after each operator, `alloc` at each allocation, `random` "
            "random parts at both, `offload` as `op`, by a copy or not as chance has it, and "
            "`bounded` at random moments, such that about ten operators are replayed for each of "
            "the job. New and freed bytes are overwritten, and what comes back is compared with "
            "what was evicted (`contents_compared`, `contents_different` in the statistics; "
            "`chaos_coverage` has by operator how many results were `made`, and how many of them "
            "were evicted and `restored` at least once).", _BOTH),
    Setting("required", "1 or 0", "0; run sets 1",
            "run without Tidepool, after one line that says why, where it cannot attach or cannot "
            "keep the budget",
            "1: a process that cannot have Tidepool ends with status 2 at `import torch`; 0, which "
            "`--if-possible` sets: it runs without.", ("run",), "--if-possible"),
    Setting("top", "1 or 0", "0", "show the job in `tidepool top`",
            "Shows the job in [`tidepool top`](instruments.md#what-is-my-job-doing): a thread "
            "writes its statistics into shared memory each second.", ("run",), "--top"),
    Setting("quiet", "1 or 0", "0", "no lines on standard error"),
    Setting("planning", "MODE", PLANNING[0], "what the policy planned does while the job runs",
            "`background`: once steps repeat themselves under pressure, a thread of low priority "
            "looks for a plan for them by simulation, for at most 20 s of its own time; each of up "
            "to eight kinds of steps, such as those of two optimizers, may have a plan. `wait`: "
            "the job waits for it at the end of a step, so that it runs the same way each time. "
            "`off`: no plan. A job that is traced, or under chaos, has none."),
    Setting("plan", "FILE", "", "plans that steps follow, in place of a search",
            "A file that [`tidepool plan`](plans.md) has written from a trace of the job.", _BOTH),
    Setting("limit_bookkeeping", "SIZE", "256MiB", "the most memory for the history of tensors",
            "It is beside the budget. Beyond it the tensors that have been resident for longest "
            "are kept instead of their history, and where none is resident new ones have none. The "
            "entries of living tensors, 300 bytes each, are needed in any case "
            "(`bookkeeping_limit` in `root_bytes`)."),
    Setting("limit_depth", "NUMBER", "128", "the longest chain of operators to restore a tensor"),
    Setting("limit_versions", "NUMBER", "32", "the most versions of one storage that are kept"),
    Setting("limit_age", "NUMBER", "4", "the number of steps for which history is kept"),
    Setting("limit_records", "NUMBER", "1048576", "the most operators that are remembered"),
    Setting("page", "SIZE", "2MiB", "the unit in which memory is taken from the system",
            "`TIDEPOOL_HANDLE` is an old name of it."),
    Setting("room", "WAYS", "+".join(ROOM), "ways to make room, for comparison"),
    Setting("allocator", "NAME", ALLOCATORS[0], "what serves requests on cuda: arena or native",
            "`native`: PyTorch's own allocator serves every request, under the budget; to tell an "
            "allocator's fault from others."),
    Setting("poison", "1 or 0", "0", "overwrite freed memory, for tests"),
)
KEYS = tuple(setting.key for setting in SETTINGS)
# Known, but no settings of a user: what the shim leaves for `backend:tidepool`, who writes the
# statistics and the trace and speaks for all, what `verify` asks of its jobs, what asks for all
# tests; what drives a job by a trace of itself (bindings/torch_cpu/settings.h).
RESERVED = ("backend", "stats_owner", "trace_owner", "verify", "full", "costs", "event_log",
            "trace_blocks", "first_process")
_PARTS = 10**9  # a device's memory, while its size is not known
# These alone do not ask for Tidepool: they may well stand in a profile.
PASSIVE = ("quiet", "top", "required", "stats_owner", "trace_owner", "verify", "full", "costs",
            "event_log", "trace_blocks", "first_process")
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


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
    planning: str = PLANNING[0]
    plan: str | None = None  # a plan file
    chaos: str = "none"
    stats: str | None = None
    trace: str | None = None  # a file for the job's trace
    trace_steps: tuple[int, int | None] = (1, None)  # the first and the last that it has
    record: str | None = None  # a file for what is done for the job
    record_bytes: int = 64 << 20
    poison: bool = False
    page_bytes: int | None = None
    room: tuple[str, ...] = ROOM
    allocator: str = "arena"
    quiet: bool = False
    top: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    offload: _offload.Tier | None = None
    trust: str | None = None  # a trust file
    replay: tuple[str, ...] = ()  # operators
    keep: tuple[str, ...] = ()

    def trusts(self) -> bool:
        """Return whether operators of the job's may be run again."""
        return self.trust is not None or bool(self.replay)

    def rematerializes(self) -> bool:
        """Whether operators are watched, so that tensors can be evicted and restored."""
        return self.policy != NO_POLICY and self.allocator == "arena"

    def for_plugin(self) -> dict:
        """Return what the plugin's `tidepool_attach` reads."""
        values = {"device": self.device, "budget_bytes": self.budget_bytes, "chaos": self.chaos,
                  "poison": self.poison}
        if self.rematerializes():
            values["policy"] = self.policy
            if self.planning != PLANNING[0]:
                values["planning"] = self.planning
            if self.plan:
                values["plan"] = self.plan
        else:
            values["rematerialize"] = False
        if self.budget_share:
            values["budget_share"] = self.budget_share
        if self.budget_auto and self.device == "cuda":
            values["budget_auto"] = True
        if self.page_bytes is not None:
            values["page_bytes"] = self.page_bytes
        values.update({f"allow_{way}": False for way in ROOM if way not in self.room})
        if self.allocator != "arena":
            values["allocator"] = self.allocator
        if self.offload:
            values["offload"] = self.offload.for_plugin()
        if self.trusts():
            values["compares_restored"] = True
        if self.limits:
            values["limits"] = dict(self.limits)
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
    for key in _keys_in(environ):
        if key in PASSIVE:
            continue
        if key in KEYS or key in OLD_KEYS or key in RESERVED or nearest(key, KEYS):
            return True
    return False


def required(environ: Mapping[str, str]) -> bool:
    """Return whether a process that cannot have Tidepool must end, rather than run without it."""
    return environ.get(REQUIRED, "").strip().lower() not in ("", *_NO)


def resolve(arguments: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """Return checked settings from a call's arguments and, behind them, the environment.

    Args:
        arguments: settings by key; None means not given.
        environ: after `_conf.take_from_conf`.

    Raises:
        SettingsError: names the input.
    """
    given: dict[str, tuple[str, str]] = {}  # key -> (where it was given, text)
    for key in _keys_in(environ):
        name = PREFIX + key.upper()
        key = OLD_KEYS.get(key, key)
        if key not in KEYS and key not in RESERVED:
            valid = tuple(PREFIX + k.upper() for k in KEYS)
            raise SettingsError(f"unknown setting {name}{nearest(name, valid)} "
                                f"(known: {', '.join(valid)})")
        if environ[name].strip():
            given[key] = (name, environ[name].strip())
    for key, value in arguments.items():
        if value is not None:
            given[key] = (key, str(value).strip())
    return _check(given)


def _keys_in(environ: Mapping[str, str]) -> list[str]:
    return [name[len(PREFIX):].lower() for name in environ
            if name.startswith(PREFIX) and environ[name].strip()]


def _check(given: Mapping[str, tuple[str, str]]) -> Settings:
    device = _device(given)
    limits = {name: _positive(given[key]) for key, name in LIMITS.items() if key in given}
    if "limit_bookkeeping" in given:
        limits["bookkeeping_bytes"] = _size(given["limit_bookkeeping"], None)
    budget = _budget(given, device)
    settings = Settings(
        **budget,
        device=device,
        policy=_policy(given),
        planning=_one_of(given, "planning", PLANNING, PLANNING[0]),
        plan=_parsed(given, "plan", plan_file.checked_path),
        chaos=_chaos(given),
        stats=given["stats"][1] if "stats" in given else None,
        trace=given["trace"][1] if "trace" in given else None,
        trace_steps=_parsed(given, "trace_steps", _trace_file.steps_in, (1, None)),
        record=given["record"][1] if "record" in given else None,
        record_bytes=_size(given.get("record_size", ("", "64MiB")), None),
        poison=_flag(given, "poison"),
        page_bytes=_size(given["page"], None) if "page" in given else None,
        room=_room(given),
        allocator=_one_of(given, "allocator", ALLOCATORS, "arena"),
        quiet=_flag(given, "quiet"),
        top=_flag(given, "top"),
        limits=limits,
        offload=_parsed(given, "offload", _offload.parse),
        trust=_parsed(given, "trust", _trust_file.checked_path),
        replay=_parsed(given, "replay", _trust_file.operators_in, ()),
        keep=_parsed(given, "keep", _trust_file.operators_in, ()),
    )
    _flag(given, "required")  # read by `required`, which takes what is not 0 for 1
    for key in ("chaos", "trace", "record", "offload"):
        if getattr(settings, key) not in (None, "none") and not settings.rematerializes():
            raise _wrong(*given[key], "expected none where nothing is evicted: "
                                      f"policy {settings.policy}, allocator {settings.allocator}")
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
    return settings


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
    if "windows" not in ways and "remap" not in ways:
        raise _wrong(origin, text, "expected windows or remap among them")
    return ways


def _device(given: Mapping) -> str:
    return _one_of(given, "device", DEVICES, "cuda" if gpu_is_visible() else "cpu")


def _size(source: tuple[str, str], device_bytes: int | None) -> int:
    size = _parsed({"size": source}, "size", lambda text: _sizes.parse_size(text, device_bytes))
    if size <= 0:
        raise _wrong(*source, "expected more than zero bytes")
    return size


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
    if text in ("none", "op", "alloc", "bounded"):
        return text
    if re.fullmatch(r"(random|bounded|offload):[0-9]+", text):
        return text
    valid = ("none", "op", "alloc", "random:SEED", "bounded", "bounded:SEED", "offload:SEED")
    for mode in ("random", "bounded", "offload"):
        if text.startswith(mode):
            raise _wrong(origin, text,
                         f"expected {mode}:SEED with a whole number, such as {mode}:7")
    raise _wrong(origin, text, f"expected one of {', '.join(valid)}{nearest(text, valid)}")


def _flag(given: Mapping, key: str) -> bool:
    if key not in given:
        return False
    origin, text = given[key]
    if text.lower() in _YES:
        return True
    if text.lower() in _NO:
        return False
    raise _wrong(origin, text, "expected 1 or 0")


def _positive(source: tuple[str, str]) -> int:
    origin, text = source
    if not re.fullmatch(r"[0-9]+", text) or int(text) == 0:
        raise _wrong(origin, text, "expected a whole number above zero")
    return int(text)


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
