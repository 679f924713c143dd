"""Tidepool: PyTorch training within a hard memory budget, with the same bits.

    import tidepool
    tidepool.enable(budget="8GiB")

or, without a change to the job, `tidepool run --budget 8GiB -- python train.py`.
"""

from __future__ import annotations

from ._version import __version__
from .job import _control
from .job._control import Kept, budget, keep, metrics, no_eviction, on_pressure, set_budget, step
from .job._plugin import AttachError
from .job._shortage import Shortage, shortage
from .job._steps import Pressure
from .settings._settings import SettingsError

__all__ = ["AttachError", "Kept", "Pressure", "SettingsError", "Shortage", "__version__", "budget",
           "enable", "keep", "metrics", "no_eviction", "on_pressure", "set_budget", "shortage",
           "stats", "step"]


def enable(
    budget: str | int | None = None,
    *,
    policy: str | None = None,
    chaos: str | None = None,
    device: str | None = None,
    offload: str | None = None,
    trust: str | None = None,
    replay: str | None = None,
    keep: str | None = None,
    plan: str | None = None,
    stats: str | None = None,
    trace: str | None = None,
    trace_steps: str | int | None = None,
    record: str | None = None,
    record_size: str | int | None = None,
) -> None:
    """Attach to this process. Memory allocated before is never evicted, so call it early.

    Args:
        budget: bytes, or a size such as "8GiB", "8GB" or "60%" (of the device's memory), or
            "auto": what there is, which is the default where a GPU is visible.
        policy: what to evict: planned (default), or another name of docs/settings.md.
        chaos: evict on purpose, for tests: op, alloc, random:SEED, bounded[:SEED], offload:SEED.
        device: cpu, or cuda.
        offload: where tensors may go that are costly to recompute: "host:64GiB" on CUDA,
            "file:/scratch:500GiB" on the CPU.
        trust: a file that `tidepool verify --trust` wrote: operators that may be run again.
        replay: operators to run again although they are not checked: "mylib::op,mylib::other".
        keep: operators never to run again.
        plan: a file that `tidepool plan` wrote: plans that steps follow.
        stats: a file for statistics at exit, JSON.
        trace: a file for what the job does from now on, for tidepool-replay; ".gz" compresses.
        trace_steps: the steps that are recorded, counted from 1: "3", "2:4" or "2:".
        record: a file for what is done for the job, for `tidepool report`.
        record_size: how large that may be; 64 MiB.
        What is not given comes from TIDEPOOL_* variables. In a job that `tidepool verify` runs
        its settings count; in its runs without Tidepool counts are zero, and budgets do nothing.

    Raises:
        SettingsError: a setting is wrong; the message names it.
        AttachError: no plugin for this PyTorch, or already attached with other settings.
    """
    import os

    from . import _autoload
    from .job import _job
    from .settings import _conf, _settings

    if os.environ.get("TIDEPOOL_VERIFY"):
        _control.enabled_in_plain_run = True  # of those with Tidepool there is a job
        return
    _conf.take_from_conf(os.environ)
    given = {"budget": budget, "policy": policy, "chaos": chaos, "device": device,
             "offload": offload, "trust": trust, "replay": replay, "keep": keep, "plan": plan,
             "stats": stats, "trace": trace, "trace_steps": trace_steps,
             "record": record, "record_size": record_size}
    if budget is None and not os.environ.get("TIDEPOOL_BUDGET", "").strip():
        given["budget"] = _settings.default_budget(given, os.environ)
    settings = _settings.resolve(given, os.environ)
    _autoload.suspended = True
    try:
        import torch  # noqa: F401  its entry point would attach with the environment's settings
    finally:
        _autoload.suspended = False
    job = _job.current()
    if job is None:
        _job.attach(settings)
    else:
        _check_attached(job, settings)


def _check_attached(job, settings) -> None:
    import os

    if job.pid != os.getpid():
        raise AttachError("a forked child has no budget of its own, and gets none by enable()")
    wanted = settings.as_resolved_before(job.settings)
    changed = [f"{key} from {value!r} to {getattr(wanted, key)!r}"
               for key, value in vars(job.settings).items() if value != getattr(wanted, key)]
    if changed:
        raise AttachError(f"already attached with {job.settings.describe()}: enable() cannot "
                          f"change {' or '.join(changed)}")


def stats() -> dict:
    """Return statistics: {"version", "torch", "devices": {"cpu": {...}}}.

    `devices` is empty where Tidepool is not attached. The keys are in docs/guide.md.
    """
    from .job import _job

    job = _job.current()
    if job is None and _control.enabled_in_plain_run:
        return _job.report(_control.NoDevices())
    return _job.report(job.plugin.statistics() if job else {})
