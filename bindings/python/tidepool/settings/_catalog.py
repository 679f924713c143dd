"""The catalog of settings: their names, what they may be, and what is said of them.

The command line's options and help, docs/settings.md and what the library for C++ programs takes
and says (bindings/cpp/generate_setting_names.py) come from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._policies import BASELINES, OWN_POLICIES

POLICIES = (*OWN_POLICIES, *BASELINES)  # the default first
DEFAULT_POLICY = "default"  # another name for the first
NO_POLICY = "none"  # on cuda: a caching allocator with a budget, which evicts nothing
DEVICES = ("cpu", "cuda")
ROOM = ("windows", "moves", "remap")  # ways to make room, for comparison
SUFFICIENT_ROOM = ("windows", "remap")  # one of these has to be among the ways
CHAOS = ("none", "op", "alloc", "random:SEED", "bounded", "bounded:SEED", "offload:SEED")
PLANNING = ("background", "wait", "off")  # what `planned` does while the job runs
ALLOCATORS = ("arena", "native")  # on cuda; native: PyTorch's own under the budget, to debug
AUTO = "auto"  # a budget: what there is
RECORD_SIZE = "64MiB"  # where none is given
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")  # in any case
UNITS = {  # of sizes, in bytes
    "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}
# What `auto` leaves on the CPU to all that is no tensor: one of so many parts of the free memory,
# and at least so many bytes, where these are at most half of it.
RESERVE_PARTS = 8
LEAST_RESERVE = 2**30
# By what a value looks like (Setting.value): what an error says was expected.
EXPECTED = {
    "1 or 0": "1 or 0",
    "NUMBER": "a whole number above zero",
    "SIZE": "a size such as 8GiB, 8GB, 8589934592 or 80%",
    "FIRST[:LAST]": "a step, or FIRST:LAST, counted from 1",
    "WHERE:SIZE": "host:SIZE, such as host:64GiB, file:FOLDER:SIZE, such as file:/scratch:1TiB, "
                  "or none",
}
PREFIX = "TIDEPOOL_"
REQUIRED = "TIDEPOOL_REQUIRED"  # 1: a process that cannot have Tidepool ends

OLD_KEYS = {"handle": "page"}  # names that settings had before, which jobs may still give


@dataclass(frozen=True)
class Setting:
    """One setting as users see it: the command line's help and docs/settings.md come from these.

    One with an `entry` needs nothing else in the package or in bindings/cpp/: it is checked as
    `choices` or else `value` says, and goes to the plugin. The others are read by name, in
    _settings.py and in bindings/cpp/settings.cpp, by the words and texts of this file.
    """

    key: str  # TIDEPOOL_KEY is its variable, tidepool_key its key in PyTorch's settings
    value: str  # what a value looks like
    default: str
    help: str  # a phrase, as the command line's help has it
    more: str = ""  # sentences in Markdown that only the manual has
    commands: tuple[str, ...] = ()  # that have it as an option; `enable` has what `run` has
    switch: str = ""  # the option, where it takes no value and has a name of its own
    entry: str = ""  # of the plugin's JSON, that gets the value: "limits.depth"
    choices: tuple[str, ...] = ()  # what it may be, the default first; else see _settings.VALUES
    needs_eviction: bool = False  # refused where nothing is evicted
    python_only: bool = False  # refused in C++ programs

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
            "[What to expect](offload.md).", (*_BOTH, "probe"), needs_eviction=True),
    Setting("trust", "FILE", "", "the job's own operators that may be run again (for verify: check "
            "them, and write the file)",
            "On the CPU. What operators outside of PyTorch make (`torch.library`, extensions) is "
            "kept, unless a file that `tidepool verify --trust FILE` has written says that running "
            "them again gave the same bits. "
            "[What is checked](guide.md#may-my-own-operators-be-run-again).", (*_BOTH, "probe"),
            python_only=True),
    Setting("replay", "OPERATORS", "", "operators to run again although they are not checked: "
            "mylib::op,mylib::other", "With `trust` or without.", (*_BOTH, "probe"),
            python_only=True),
    Setting("keep", "OPERATORS", "", "operators never to run again, whatever the file says", "",
            (*_BOTH, "probe"), python_only=True),
    Setting("stats", "FILE", "", "write statistics at exit, JSON",
            "[What is in it](guide.md#statistics).", ("run",)),
    Setting("trace", "FILE[.gz]", "", "record what the job does, for tidepool-replay; needs no "
            "budget", "[The format](trace-format.md).", ("run",), needs_eviction=True),
    Setting("trace_steps", "FIRST[:LAST]", "all",
            "record these steps only, counted from 1: N, N:M, or N: for all from there on",
            "", ("run",)),
    Setting("record", "FILE", "", "record what is done for the job, for tidepool report",
            "[What is in it](work-ring.md).", ("run",), needs_eviction=True),
    Setting("record_size", "SIZE", RECORD_SIZE, "how large the recording may be", "", ("run",)),
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
            "were evicted and `restored` at least once).", _BOTH, needs_eviction=True),
    Setting("required", "1 or 0", "0; run sets 1",
            "run without Tidepool, after one line that says why, where it cannot attach or cannot "
            "keep the budget",
            "1: a process that cannot have Tidepool ends with status 2 at `import torch`; 0, which "
            "`--if-possible` sets: it runs without.", ("run",), "--if-possible"),
    Setting("top", "1 or 0", "0", "show the job in `tidepool top`",
            "Shows the job in [`tidepool top`](instruments.md#what-is-my-job-doing): a thread "
            "writes its statistics into shared memory each second.", ("run",), "--top"),
    Setting("quiet", "1 or 0", "0", "no line at the start, and none at the end",
            "What goes wrong is said all the same."),
    Setting("planning", "MODE", PLANNING[0], "what the policy planned does while the job runs",
            "`background`: once steps repeat themselves under pressure, a thread of low priority "
            "looks for a plan for them by simulation, for at most 20 s of its own time; each of up "
            "to eight kinds of steps, such as those of two optimizers, may have a plan. `wait`: "
            "the job waits for it at the end of a step, so that it runs the same way each time. "
            "`off`: no plan. A job that is traced, or under chaos, has none.",
            entry="planning", choices=PLANNING),
    Setting("plan", "FILE", "", "plans that steps follow, in place of a search",
            "A file that [`tidepool plan`](plans.md) has written from a trace of the job.", _BOTH,
            python_only=True),
    Setting("limit_bookkeeping", "SIZE", "256MiB", "the most memory for the history of tensors",
            "It is beside the budget. Beyond it the tensors that have been resident for longest "
            "are kept instead of their history, and where none is resident new ones have none. The "
            "entries of living tensors, 300 bytes each, are needed in any case "
            "(`bookkeeping_limit` in `root_bytes`).", entry="limits.bookkeeping_bytes"),
    Setting("limit_depth", "NUMBER", "128", "the longest chain of operators to restore a tensor",
            entry="limits.depth"),
    Setting("limit_versions", "NUMBER", "32", "the most versions of one storage that are kept",
            entry="limits.versions"),
    Setting("limit_age", "NUMBER", "4", "the number of steps for which history is kept",
            entry="limits.age_steps"),
    Setting("limit_records", "NUMBER", "1048576", "the most operators that are remembered",
            entry="limits.records"),
    Setting("page", "SIZE", "by the budget, 4KiB to 2MiB",
            "the unit in which memory is taken from the system",
            "`TIDEPOOL_HANDLE` is an old name of it.", entry="page_bytes"),
    Setting("room", "WAYS", "+".join(ROOM), "ways to make room, for comparison"),
    Setting("allocator", "NAME", ALLOCATORS[0], "what serves requests on cuda: arena or native",
            "`native`: PyTorch's own allocator serves every request, under the budget; to tell an "
            "allocator's fault from others.", entry="allocator", choices=ALLOCATORS),
    Setting("poison", "1 or 0", "0", "overwrite fresh and freed memory, for tests", entry="poison"),
)
KEYS = tuple(setting.key for setting in SETTINGS)
NEED_EVICTION = tuple(setting.key for setting in SETTINGS if setting.needs_eviction)
# Known, but no settings of a user: what the shim leaves for `backend:tidepool`, who writes the
# statistics and the trace and speaks for all, what `verify` asks of its jobs, what asks for all
# tests; what drives a job by a trace of itself (bindings/torch_cpu/settings.h).
RESERVED = ("backend", "stats_owner", "trace_owner", "verify", "full", "costs", "event_log",
            "trace_blocks", "first_process")
# These alone do not ask for Tidepool: they may well stand in a profile.
PASSIVE = ("quiet", "top", "required", "stats_owner", "trace_owner", "verify", "full", "costs",
            "event_log", "trace_blocks", "first_process")
