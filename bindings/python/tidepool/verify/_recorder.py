"""Writes fingerprints of each training step, in a job that `tidepool verify` runs.

A step is a call of an optimizer's `step`, outermost if one calls another. Written, in this order,
are the tensors on which backward starts (losses), gradients before the step, then parameters, the
buffers of their modules and the state of the default random number generator. Each process that
does any of that writes a file of its own, line by line, each line one JSON object; `_step_log.py`
reads them. Nothing is recorded inside of torch.compile.

Invariant: the job computes what it would compute without the recorder: no random number is drawn,
no tensor is kept alive, none is written, and none is kept from being evicted.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import sys
import threading
import traceback
import types
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path

from ..job import _job, _live, _plugin
from ..trust import _operator_check, _trust_file
from . import (
    _fingerprint,
    _json_lines,
    _operator_log,
    _operator_watch,
    _step_clock,
    _step_log,
    _tensor_names,
)

VARIABLE = "TIDEPOOL_VERIFY"
STARTED = ".started"  # suffix of a file for each process that could have been recorded
CHECKED = ".checked"  # of a trust file for each process that has checked its operators
COUNTED = ("evictions", "operators_replayed", "num_ooms")  # of a device's statistics
LACKED = ".lacked_memory"  # of a file for each that ran out of memory and recorded nothing
_SECONDS_TO_END = 60  # for what a stopped job still does: its own clean-up, threads, workers


@dataclass(frozen=True)
class Task:
    """What a run is to record; comes in an environment variable.

    `steps` stops the job after so many steps; from step `watch` on its operators are recorded too.
    Without `compare` steps are counted and timed, and no tensor is looked at. With `check` the
    job's own operators are checked.
    """

    folder: str
    steps: int | None = None
    watch: int | None = None
    compare: bool = True
    check: bool = False

    def to_variable(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_variable(text: str) -> Task:
        return Task(**json.loads(text))


def take_log(folder: str) -> _json_lines.JsonLines:
    """Return a new log: ranks of a distributed job by their number, others in order of starting."""
    rank = _live.rank()
    stem = _step_log.PROCESS_STEM if rank is None else f"{_step_log.RANK_STEM}{rank}_"
    for number in range(10_000):
        try:
            return _json_lines.JsonLines(Path(folder, f"{stem}{number}{_step_log.SUFFIX}"))
        except FileExistsError:  # an earlier process of this job
            continue
    raise OSError(f"too many processes write to {folder}")


class Recorder:
    """Records one process. Its methods are called by hooks, from any thread."""

    def __init__(self, torch, task: Task) -> None:
        self._torch = torch
        self._task = task
        self._fingerprints = _fingerprint.Fingerprints(torch)
        self._step_code = torch.optim.Optimizer.profile_hook_step(lambda self: None).__code__
        self._local = threading.local()
        self._start_over()

    def _start_over(self) -> None:
        """Begin as a process that has recorded nothing: at first, and in a forked child."""
        self._fingerprints.renew_lock()
        self._lock = threading.RLock()
        self._log: _json_lines.JsonLines | None = None
        self._step = 1  # the one under way
        self._ended = ""  # why the record has ended: "steps" or "exit"
        self._broken = False
        # optimizer -> number, ids of its parameters, their names
        self._optimizers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._optimizer_count = 0
        self._labels: dict[tuple[str, int], list[str]] = {}  # as last written
        self._watch: _operator_watch.OperatorWatch | None = None
        self._check: _operator_check.OperatorCheck | None = None
        self._clock = _step_clock.StepClock()
        self._inherited: dict = {}
        self._inherited = self._counters()

    def install(self) -> None:
        """Follow optimizers and backward from now on."""
        import torch.optim.optimizer as optimizers  # its package hides it

        optimizers.register_optimizer_step_pre_hook(self._outermost(self.before_step))
        optimizers.register_optimizer_step_post_hook(self._outermost(self.after_step))
        autograd = self._torch.autograd
        if hasattr(autograd, "_engine_run_backward"):
            autograd._engine_run_backward = self._following(autograd._engine_run_backward)
        os.register_at_fork(after_in_child=self._start_over)
        atexit.register(self.finish)
        if self._task.watch == 1:
            self._watch_operators()
        if self._task.check:
            self._check = _operator_check.OperatorCheck(self._torch, self._fingerprints,
                                                        _plugin.load().kernel_library)
            self._check.start()

    # -- hooks -------------------------------------------------------------------------------------

    def _outermost(self, record):
        """Return a hook for an optimizer that passes on calls of `step` not inside another one."""
        is_compiling = self._torch.compiler.is_compiling

        def hook(optimizer, args, kwargs):
            if is_compiling():
                return
            calls = 0
            frame: types.FrameType | None = sys._getframe(1)
            while frame is not None:  # of the stack, as a step that raised reports no end
                calls += frame.f_code is self._step_code
                frame = frame.f_back
            if calls <= 1:
                self._safely(record, optimizer)

        return hook

    def _following(self, original):
        """Wrap autograd's engine: note on what it starts, unless it is running already."""
        is_compiling = self._torch.compiler.is_compiling

        @functools.wraps(original)
        def run_backward(tensors, *args, **kwargs):
            if is_compiling() or getattr(self._local, "running", False):
                return original(tensors, *args, **kwargs)
            self._safely(self.before_backward, tensors)
            self._local.running = True
            try:
                return original(tensors, *args, **kwargs)
            finally:
                self._local.running = False

        return run_backward

    def _safely(self, record, what) -> None:
        """Record, or give recording up: a fault of the recorder's is not the job's."""
        if self._broken:
            return
        try:
            with self._clock.paused():
                record(what)
        except self._torch.OutOfMemoryError:  # the budget is too small to restore what was evicted
            raise
        except Exception as error:
            self._broken = True
            traceback.print_exc()
            with contextlib.suppress(OSError):  # the disk may be full
                self._taken_log().write({"kind": "broken",
                                         "reason": f"{type(error).__name__}: {error}"})

    def before_backward(self, tensors) -> None:
        losses = [t for t in tensors if isinstance(t, self._torch.Tensor)]
        with self._lock:
            if not self._ended:
                self._write("loss", [(f"loss ({_fingerprint.describe(t)})", t) for t in losses])

    def before_step(self, optimizer) -> None:
        with self._lock:
            if self._ended == "steps":  # the job caught what should have ended it
                self._end_process()
            if self._ended:
                return
            self._write("gradient", [(name, _gradient(p)) for name, p in self._named(optimizer)],
                        optimizer)

    def after_step(self, optimizer) -> None:
        with self._lock:
            if self._ended:
                return
            self._write("parameter", self._named(optimizer), optimizer)
            self._write("buffer", list(self._names(optimizer).buffers()), optimizer)
            self._write("random", [("state of the random number generator",
                                    self._torch.default_generator.get_state())])
            self._taken_log().write({"kind": "time", "step": self._step, **self._clock.lap()})
            counters = self._counters()
            if different := counters.get("contents_different"):
                self._taken_log().write(
                    {"kind": "restored", "step": self._step, "different": different})
            if counters:  # the process may end without another word
                self._taken_log().write({"kind": "counters", **_counts(counters)})
            self._step += 1
            if self._check:
                self._check.settle()
            if self._step == self._task.watch:
                self._watch_operators()
            if self._task.steps is None or self._step <= self._task.steps:
                return
            self.finish("steps")
        self._stop()

    def finish(self, reason: str = "exit") -> None:
        """Write the last line: what ended the record, and what Tidepool did until then."""
        with self._lock:
            if self._ended:
                return
            counters = self._counters()
            if self._log is None:  # a log of its own now would be taken for another process's
                if counters.get("num_ooms"):
                    Path(self._task.folder, f"{os.getpid()}{LACKED}").touch()
                return
            self._ended = reason
            if self._watch:
                self._watch.stop()
            if self._check:
                _trust_file.write(self._log.path.with_suffix(CHECKED), str(self._torch.__version__),
                                  self._check.finish())
            self._log.write({"kind": "end", "reason": reason, **_counts(counters),
                             "coverage": counters.get("chaos_coverage", {})})

    def _counters(self) -> dict:
        """Return Tidepool's statistics of all devices together, none where it is not attached.

        What a parent had evicted and run again before its fork does not count for the child.
        """
        job = _job.current()
        total: dict = {}
        for device in job.plugin.statistics().values() if job else ():
            for key in COUNTED:
                total[key] = total.get(key, -self._inherited.get(key, 0)) + device.get(key, 0)
            key = "reserved_peak_bytes"
            total[key] = max(total.get(key, 0), device.get(key, 0))
            for key in ("contents_different", "chaos_coverage"):
                total[key] = {**total.get(key, {}), **device.get(key, {})}
        return total

    # -- writing -----------------------------------------------------------------------------------

    def _write(self, kind: str, tensors: list[tuple[str, object]], optimizer=None) -> None:
        """Write the fingerprints of labelled tensors (None: there is none)."""
        number = self._optimizers[optimizer][0] if optimizer is not None else 0
        log = self._taken_log()
        if not self._task.compare:
            tensors = []
        labels = [label for label, _ in tensors]
        if self._labels.get((kind, number)) != labels:
            self._labels[kind, number] = labels
            log.write({"kind": "labels", "of": kind, "optimizer": number, "labels": labels})
        fingerprints = [None if tensor is None else self._fingerprints.of(tensor)
                        for _, tensor in tensors]
        log.write({"kind": kind, "step": self._step, "optimizer": number,
                   "fingerprints": fingerprints})
        if self._watch:
            for (label, tensor), fingerprint in zip(tensors, fingerprints, strict=True):
                if fingerprint is not None:
                    self._watch.note_fingerprint(kind, label, tensor, fingerprint)

    def _taken_log(self) -> _json_lines.JsonLines:
        if self._log is None:
            self._log = take_log(self._task.folder)
            self._log.write({"kind": "process", "pid": os.getpid(),
                             "attached": _job.current() is not None,
                             "torch": str(self._torch.__version__)})
        return self._log

    def _names(self, optimizer) -> _tensor_names.TensorNames:
        parameters = [id(p) for _, _, p in _tensor_names.parameters_of(optimizer)]
        number, known, names = self._optimizers.get(optimizer, (None, None, None))
        if number is None:
            number = self._optimizer_count
            self._optimizer_count += 1
        if known != parameters:
            names = _tensor_names.TensorNames(self._torch, optimizer)
            self._optimizers[optimizer] = (number, parameters, names)
        return names

    def _named(self, optimizer) -> list[tuple[str, object]]:
        labels = self._names(optimizer).parameters
        tensors = [p for _, _, p in _tensor_names.parameters_of(optimizer)]
        return list(zip(labels, tensors, strict=True))

    def _watch_operators(self) -> None:
        path = self._taken_log().path.with_suffix(_operator_log.SUFFIX)
        self._watch = _operator_watch.OperatorWatch(
            self._torch, self._fingerprints, _json_lines.JsonLines(path), lambda: self._step)
        self._watch.start()

    # -- stopping ----------------------------------------------------------------------------------

    def _stop(self) -> None:
        """End the job as `sys.exit()` would, and after a while whatever it does."""
        if threading.current_thread() is not threading.main_thread():
            self._end_process()
        timer = threading.Timer(_SECONDS_TO_END, self._end_process)
        timer.daemon = True
        timer.start()
        raise SystemExit(0)

    @staticmethod
    def _end_process() -> None:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):  # none, or closed
                continue
        os._exit(0)


def _counts(counters: dict) -> dict[str, int]:
    """Return what a log says of Tidepool's statistics."""
    return {name: counters.get(key, 0) for name, key in _step_log.COUNTERS.items()}


def _gradient(parameter):
    """Return a parameter's gradient; asking another tensor than a leaf for it would warn."""
    return parameter.grad if parameter.is_leaf or parameter.retains_grad else None


def start(text: str) -> None:
    """Record this process as the variable's text asks for; `torch` is imported."""
    import torch
    import torch.optim

    task = Task.from_variable(text)
    Recorder(torch, task).install()
    Path(task.folder, f"{os.getpid()}{STARTED}").touch()
