"""What a job may say about its memory while it runs: its budget, and what is not to be evicted."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..settings import _settings, _sizes
from . import _inner_tensors
from ._limit import NO_LIMIT, Limit
from ._plugin import AttachError
from ._steps import Pressure

if TYPE_CHECKING:
    from ._job import Job

# The job has called enable() in a run of `tidepool verify` that has no Tidepool: what it asks for
# gets an answer all the same.
enabled_in_plain_run = False
_LOGGED = ("evictions", "evicted_bytes", "operators_replayed", "replay_ns")


class NoDevices(dict):
    """The devices of such a run, which is said of whichever is asked for: all counts are zero."""

    class _Counts(dict):
        def __missing__(self, key: str) -> int:
            return 0

    def __missing__(self, device: str) -> NoDevices._Counts:
        return self._Counts()


class Kept:
    """Tensors that stay where they are until `release()`, or the end of a `with` block."""

    def __init__(self, job: Job | None, tensors: tuple) -> None:
        """Restore the tensors; raise OutOfMemoryError if they do not fit together."""
        self._holds: contextlib.ExitStack = contextlib.ExitStack()
        if job is None or job.storage_of is None:
            return  # nothing is evicted
        parts = [part for tensor in tensors for part in _parts(tensor)]
        self._storages = [part.untyped_storage() for part in parts]  # so that they live on
        self._holds.enter_context(job.plugin.holding([job.storage_of(each) for each in parts]))

    def release(self) -> None:
        """Let the tensors be evicted again; more than once does nothing."""
        self._holds.close()
        self._storages = []

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _parts(tensor: Any) -> Iterator[Any]:
    """Yield the tensors with memory that a tensor consists of."""
    import torch

    def each(parts: Iterable[Any]) -> Iterator[Any]:
        return (found for part in parts for found in _parts(part))

    if torch.utils._python_dispatch.is_traceable_wrapper_subclass(tensor):
        yield from each(getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])
    elif parts := _inner_tensors.of_sparse(torch, tensor):
        yield from each(parts)
    elif tensor.is_nested:
        yield from each((tensor.values(), tensor._nested_tensor_size(),
                         tensor._nested_tensor_strides(), tensor._nested_tensor_storage_offsets()))
    elif torch._C._has_storage(tensor):
        yield tensor


def keep(*tensors: Any) -> Kept:
    """Keep tensors from being evicted, until the result is released, or its `with` block ends.

        with tidepool.keep(hidden):
            ...

    They are restored if they are evicted; of a tensor that consists of others (a wrapper subclass
    such as DTensor, a sparse or nested one) each is. Where Tidepool is not attached nothing is
    done.

    Raises:
        TypeError: something else was given.
        torch.OutOfMemoryError: they do not fit the budget together.
    """
    if tensors:
        import torch
        for each in tensors:
            if not isinstance(each, torch.Tensor):
                raise TypeError(f"keep: expected tensors, got {type(each).__name__}")
    return Kept(_current(), tensors)


@contextlib.contextmanager
def no_eviction() -> Iterator[None]:
    """Evict nothing until the block ends: all that is evicted is restored first.

    Memory that the block needs beyond the budget raises OutOfMemoryError. Where Tidepool is not
    attached nothing is done.

    Raises:
        torch.OutOfMemoryError: what is evicted does not fit; or a request in the block.
    """
    job = _current()
    if job is None or job.storage_of is None:
        yield
        return
    with job.plugin.keeping():
        yield


def step() -> None:
    """End a step of a training loop that has no optimizer of PyTorch's.

    The steps of optimizers are noticed without it. Once it has been called, only its calls count.
    Where Tidepool is not attached nothing is done.
    """
    job = _current()
    if job is not None and job.steps is not None:
        job.steps.end()


def on_pressure(callback: Callable[[Pressure], object]) -> Callable[[], None]:
    """Call a function after each step in which something was evicted.

    It is called on the thread that ended the step, once the optimizer is done, with no lock held:
    it may do what the job may do there. What it raises reaches the job. Each call takes statistics,
    some tens of microseconds. Where Tidepool is not attached nothing is done.

    Returns:
        A function that ends this.

    Raises:
        TypeError: it is no function.
    """
    if not callable(callback):
        raise TypeError(f"on_pressure: expected a function, got {callback!r}")
    job = _current()
    if job is None or job.steps is None:
        return lambda: None
    return job.steps.listen(callback)


def metrics() -> dict[str, float]:
    """Return what a training log should have, by names that begin with "tidepool/".

    Counts are since the start, and sums over all devices; peaks are those of the fullest one. It is
    empty where Tidepool is not attached.
    """
    job = _current()
    devices = list(job.plugin.statistics().values()) if job else []
    if not devices and not enabled_in_plain_run:
        return {}
    found = {key: float(sum(values.get(key, 0) for values in devices)) for key in _LOGGED}
    found["reserved_peak_bytes"] = float(max(
        (values["reserved_peak_bytes"] for values in devices), default=0))
    found["replay_seconds"] = found.pop("replay_ns") / 1e9
    return {f"tidepool/{key}": value for key, value in found.items()}


def set_budget(size: str | int | None) -> int:
    """Change the budget of this process from now on, up to the one that it was attached with.

    A smaller budget holds when the call returns: what has to go is evicted. On CUDA it holds for
    each device that has been used.

    Args:
        size: bytes, or a size such as "8GiB" or "60%"; None is the budget of the start again.

    Returns:
        The bytes that are allowed.

    Raises:
        SettingsError: the size is wrong.
        AttachError: Tidepool is not attached.
        torch.OutOfMemoryError: what cannot be evicted takes more; the budget is what it was.
    """
    job = _attached_job()
    if job is None:
        return NO_LIMIT if size is None else _bytes(str(size), "cpu")
    budgets = [device["budget_bytes"] for device in job.plugin.statistics().values()]
    wanted = NO_LIMIT if size is None else _bytes(str(size), job.settings.device)
    with job.limit_lock:
        job.plugin.set_limit(wanted)
        job.limits[-1].size = wanted
    return min([wanted, *budgets])


@contextlib.contextmanager
def budget(size: str | int) -> Iterator[int]:
    """Have another budget in a block, as by `set_budget`; afterwards the one from before it.

    Where blocks of several threads overlap, that of the one that has begun last of those that have
    not ended holds.
    """
    job = _attached_job()
    if job is None:
        yield set_budget(size)
        return
    wanted = _bytes(str(size), job.settings.device)
    block = Limit(job.limits[-1].size)
    with job.limit_lock:
        job.limits.append(block)
    try:  # the handler of a signal may raise as it has been set
        yield set_budget(wanted)
    finally:
        with job.limit_lock:
            job.limits.remove(block)
            if job.pid == os.getpid():
                job.plugin.set_limit(job.limits[-1].size)


def _current() -> Job | None:
    from . import _job  # which needs much that a job without a budget should not load

    return _job.current()


def _attached_job() -> Job | None:
    """Return the job of this process; None: in a plain run there is none, and nothing to change."""
    job = _current()
    if job is None and enabled_in_plain_run:
        return None
    if job is None:
        raise AttachError("Tidepool is not attached to this process: there is no budget to change")
    if job.pid != os.getpid():
        raise AttachError("a forked child has no budget of its own: there is none to change")
    return job


def _bytes(text: str, device: str) -> int:
    memory = _sizes.cpu_memory_bytes()
    if device == "cuda" and text.strip().endswith("%"):
        import torch

        memory = torch.cuda.mem_get_info()[1]
    try:
        return min(_sizes.parse_positive_size(text, memory), NO_LIMIT)
    except ValueError as error:
        raise _settings.SettingsError(f"budget {text!r}: {error}") from None
