"""Tidepool in one process: attaching once, the two lines on standard error, the statistics.

Of a job's processes only the first one prints them, for all.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from .._version import __version__
from ..hooks import (
    _callers,
    _compiled,
    _compiled_calls,
    _distributed,
    _extensions,
    _optimizers,
    _readers,
    _redispatch,
    _registrations,
    _sharing,
    _signals,
    _switches,
    _threads,
    _torchscript,
)
from ..report import places
from ..settings import _catalog, _settings, _sizes, _trace_file
from ..trust import _operator_source, _trust
from . import _live, _outputs, _plugin, _processes, _stats_file, _steps
from ._limit import Limit


class Job:
    """An attached process. Made by `attach`; there is at most one."""

    def __init__(self, settings: _settings.Settings, plugin: _plugin.Plugin,
                 stats_file: _stats_file.StatsFile | None) -> None:
        self.settings = settings
        self.plugin = plugin
        self.stats_file = stats_file
        self.pid = os.getpid()
        self.first = _processes.join(os.environ)  # the job's first process, if that is another
        self.live_file: _live.LiveFile | None = None
        self.storage_of: Callable[[Any], int] | None = None  # where tensors can be evicted
        self.trust: _trust.Trust | None = None  # where operators of the job's may be replayed
        self.steps: _steps.Steps | None = None  # likewise
        self.graphs: _compiled_calls.Graphs | None = None  # where calls of them are recorded
        # The budgets that the job has set since, of blocks that have not ended; the last one holds.
        self.limits = [Limit()]
        self.limit_lock = threading.Lock()  # they and the plugin's change together

    def show(self) -> None:
        """Show this process in `tidepool top`, where that is possible."""
        try:
            self.live_file = _live.LiveFile(self.plugin.statistics)
            self.live_file.start()
        except OSError as error:
            say(f"not shown in `tidepool top`: {error}")

    def finish(self) -> None:
        """Print the summary and write the statistics. A forked child is not this job."""
        if os.getpid() != self.pid:
            return
        try:
            if self.live_file:
                self.live_file.close()
            self.plugin.finish()
            devices = self.plugin.statistics()
            content = {"state": "finished", **report(devices)}
            others = self._others(devices)
            if others is not None:
                if others:
                    content["processes"] = [_rank_of(devices), *others]
                    content["job_devices"] = _processes.together(
                        [each["devices"] for each in content["processes"]])
                if not self.settings.quiet:
                    say(summary_of_all(self.settings, devices, others))
                    self._say_uncalled(alone=not others)
            if self.stats_file:
                self._write_stats(self.stats_file, content)
        except Exception as error:  # at exit there is nobody left to handle it
            say(f"no summary: {type(error).__name__}: {error}")

    def _write_stats(self, file: _stats_file.StatsFile, content: dict) -> None:
        try:
            file.write(content)
        except OSError as error:
            say(f"statistics file {str(file.path)!r} cannot be written: {error.strerror}")

    def _say_uncalled(self, alone: bool) -> None:
        """Name operators that a user has named and no call had; other processes may have some."""
        if alone and self.trust:
            for name in self.trust.uncalled():
                say(f"{name} was to be replayed or kept: the job has called no operator of its own "
                    "of this name")

    def _others(self, devices: dict) -> list[dict] | None:
        """Return what other processes have told this one; None: one of them speaks for all."""
        try:
            if self.first is not None and _processes.tell(self.first, devices):
                return None
            return _processes.told()
        except Exception as error:  # what this process has to say does not depend on them
            say(f"no summary of other processes: {type(error).__name__}: {error}")
            return []


_job: Job | None = None


def current() -> Job | None:
    """Return the attached job of this process (of its parent, in a forked child)."""
    return _job


def say(line: str) -> None:
    """Print one line on standard error, if there is one."""
    try:
        sys.stderr.write(f"tidepool: {line}\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # no stderr, or closed
        pass


def attach(settings: _settings.Settings) -> Job:
    """Attach to this process.

    Raises:
        SettingsError: the statistics file cannot be written, or a file of a user's would be
            replaced.
        AttachError: no plugin for this PyTorch, or the plugin refused. Nothing is changed then.
    """
    global _job
    if _job is not None:
        raise _plugin.AttachError("already attached")
    # Another process of the job has looked at the others, and may be writing them.
    begun = _trace_file.OWNER_VARIABLE in os.environ
    _outputs.check(settings, keys=("stats",) if begun else ("stats", "trace", "record"))
    plugin = _plugin.load(device=settings.device)
    stats_file = _claim_stats_file(settings)
    trust = _judge_operators(plugin, settings)
    try:
        steps = _steps.Steps(plugin)
        storage_of, graphs = _attach(plugin, settings, _values_for_plugin(settings), trust, steps)
    except BaseException:
        if stats_file:
            stats_file.discard()
        raise
    _job = Job(settings, plugin, stats_file)
    _job.storage_of, _job.graphs = storage_of, graphs
    _job.steps = steps if storage_of else None
    _job.trust = trust
    atexit.register(_job.finish)
    if settings.top:
        _job.show()
    if not settings.quiet and _job.first is None:
        say(f"attached, {settings.describe()}")
    return _job


def _values_for_plugin(settings: _settings.Settings) -> dict:
    values = settings.for_plugin()
    is_first = _trace_file.is_first(os.environ) if settings.trace or settings.record else True
    if settings.trace is not None:
        first, last = settings.trace_steps
        blocks = os.environ.get("TIDEPOOL_TRACE_BLOCKS") == "1"
        values["trace"] = {"path": str(_trace_file.claim(settings.trace, is_first)),
                           "name": _trace_file.name_of(settings.trace), "first_step": first,
                           **({"last_step": last} if last is not None else {}),
                           **({"blocks": True} if blocks else {})}
    if settings.record is not None:
        values["record"] = {"path": str(_trace_file.claim(settings.record, is_first)),
                            "name": _trace_file.name_of(settings.record),
                            "bytes": settings.record_bytes}
    if costs := os.environ.get("TIDEPOOL_COSTS"):
        values["costs"] = {"path": costs, "log": os.environ.get("TIDEPOOL_EVENT_LOG", "")}
    return values


def _judge_operators(plugin: _plugin.Plugin, settings: _settings.Settings) -> _trust.Trust | None:
    """Have the plugin ask which of the job's own operators it may replay, if any."""
    if not settings.trusts():
        return None
    import torch

    sources = _operator_source.OperatorSources(torch)
    trust = _trust.Trust(_trust.load(settings.trust, str(torch.__version__), say),
                         settings.replay, settings.keep, sources, say)
    sources.follow()
    plugin.judge_operators(trust.judge)
    return trust


# What gives the address of a tensor's `StorageImpl`, and the compiled graphs that are recorded.
_Attached = tuple[Callable[[Any], int] | None, _compiled_calls.Graphs | None]


def _attach(plugin: _plugin.Plugin, settings: _settings.Settings,
            values: dict, trust: _trust.Trust | None,
            steps: _steps.Steps) -> _Attached:
    import torch

    attached: _Attached = (None, None)
    if settings.rematerializes():
        attached = _attach_rematerializing(plugin, values, torch, trust, steps)
    else:
        plugin.attach(values)
    if settings.device == "cuda":
        _sharing.move_before_sharing(plugin, torch.UntypedStorage)
    return attached


def _attach_rematerializing(plugin: _plugin.Plugin, values: dict, torch,
                            trust: _trust.Trust | None,
                            steps: _steps.Steps) -> _Attached:
    from torch.optim import Optimizer

    _callers.hide_package_from_compiler(torch)  # before wrappers that hide what they call, too
    readers = _readers.Readers(plugin, torch)
    try:
        readers.install()
        plugin.attach(values)
    except BaseException:
        readers.uninstall()
        raise
    _threads.follow_new_threads(plugin)
    _signals.defer_in_replays(plugin)
    _optimizers.follow_optimizers(plugin, Optimizer, torch.compiler.is_compiling,
                                  steps.end_by_optimizer)
    _registrations.follow_registrations(plugin, torch, values["device"],
                                        trust.namespaces if trust else set)
    _redispatch.follow_redispatches(plugin, torch, readers.storage_of)
    _switches.follow_switches(plugin, torch, values["device"])
    _torchscript.follow_torchscript(plugin, torch, readers.storage_of, values["device"])
    _extensions.follow_extensions(plugin, torch, readers.storage_of)
    graphs = _compiled.follow_compiled_graphs(plugin, torch, readers.storage_of,
                                              values["device"])
    if "trace" in values:
        places.follow_places(plugin, torch)
    _distributed.follow_data_parallel(plugin, torch)
    _distributed.follow_backends(plugin, torch, readers.storage_of)
    _distributed.follow_devices_of_one_process(plugin, torch, readers.storage_of)
    _distributed.follow_messages(plugin, torch)
    return readers.storage_of, graphs


def _claim_stats_file(settings: _settings.Settings) -> _stats_file.StatsFile | None:
    if settings.stats is None:
        return None
    try:
        return _stats_file.StatsFile(settings.stats, os.environ)
    except OSError as error:
        raise _settings.SettingsError(f"stats {settings.stats!r}: cannot write there: "
                                      f"{error.strerror}") from error


def report(devices: dict) -> dict:
    """Return the statistics as `tidepool.stats()` and the statistics file give them."""
    torch = sys.modules.get("torch")
    compiled = _job.graphs.report() if _job and _job.graphs else {}
    judged = {"operators": dict(_job.trust.verdicts)} if _job and _job.trust else {}
    return {"version": __version__, "torch": str(torch.__version__) if torch else None,
            "devices": devices, **judged, **compiled}


def _rank_of(devices: dict) -> dict:
    return {"pid": os.getpid(), "rank": _live.rank(), "devices": devices}


def summary_of_all(settings: _settings.Settings, devices: dict, others: list[dict]) -> str:
    """Return the line at exit for this process and those that have told it their statistics."""
    working = [each for each in (devices, *(each["devices"] for each in others))
               if _processes.did_something(each)]
    if len(working) <= 1:
        return summary(settings, (working or [devices])[0])
    return (f"{len(working)} processes, the highest peak and sums: "
            f"{summary(settings, _processes.together(working))}")


def summary(settings: _settings.Settings, devices: dict) -> str:
    """Return the line at exit."""
    if settings.device == "cpu":
        values = devices.get("cpu", {})
        return _summary_of(values, settings.describe_budget()) + _plan_of(settings, values)
    parts = [f"{name}: {_summary_of(values, _budget_of(settings, values))}"
             f"{_plan_of(settings, values)}"
             for name, values in devices.items()]
    return "; ".join(parts) or "no CUDA memory was asked for"


def _plan_of(settings: _settings.Settings, values: dict) -> str:
    if not settings.plan or values.get("step_plans", 0):
        return ""
    return f"; the plans of {settings.plan} are for other steps, and were not followed"


def _budget_of(settings: _settings.Settings, values: dict) -> str:
    if not settings.budget_auto:
        return _sizes.format_size(values["budget_bytes"])
    limit = values["limit_bytes"] + values["native_reserved_bytes"]
    return f"{_catalog.AUTO}, {_sizes.format_size(limit, exact=False)}"


def _summary_of(values: dict, budget: str) -> str:
    peak = _sizes.format_size(values.get("reserved_peak_bytes", 0), exact=False)
    text = f"peak {peak} of {budget}, {values.get('evictions', 0)} evictions"
    evicted = values.get("evicted_bytes", 0)
    if evicted:
        text += f" ({_sizes.format_size(evicted, exact=False)})"
    if offloaded := values.get("offloaded_bytes", 0):
        text += (f", {_sizes.format_size(offloaded, exact=False)} offloaded and "
                 f"{_sizes.format_size(values['fetched_bytes'], exact=False)} fetched in "
                 f"{values['exposed_ns'] / 1e9:.1f} s")
    seconds = values.get("replay_ns", 0) / 1e9
    text += f", {values.get('operators_replayed', 0)} operators replayed in {seconds:.1f} s"
    for key, what in (("bookkeeping_bytes", "of bookkeeping"), ("outside_bytes", "outside")):
        if values.get(key, 0):
            text += f", {_sizes.format_size(values[key], exact=False)} {what}"
    return text
