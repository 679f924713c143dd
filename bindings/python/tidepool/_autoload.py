"""Attaching without a line in the job: from PyTorch's entry point and from the preload shim.

Neither ever raises: a job that cannot have Tidepool gets one line and runs as without it, or its
process ends there if the job may not run without it, as in `tidepool run`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

STATUS_WITHOUT = 2  # of a process that ends because it cannot have Tidepool
_done = False  # the entry point and the shim both come by, whichever is there
_looks_again = False  # when CUDA starts
suspended = False  # `enable()` is importing torch: its arguments win over the environment


def autoload() -> None:
    """Be the entry point of the group `torch.backends`, called at the end of `import torch`."""
    attach_from_environment()


def attach_from_environment(importing: bool = True) -> None:
    """Attach if the environment asks for it, and record the job's steps for `tidepool verify`.

    Args:
        importing: PyTorch is being imported, so that the main thread has not used it.
    """
    global _done
    if _done or suspended:
        return
    _attach_if_asked(importing)
    _look_again_before_cuda()
    if os.environ.get("TIDEPOOL_VERIFY"):
        _done = True
        _record(os.environ["TIDEPOOL_VERIFY"])


def _look_again_before_cuda() -> None:
    """Look at the environment again when CUDA starts, which is when PyTorch reads it.

    The job may have set PyTorch's allocator settings after `import torch`. A backend that PyTorch
    does not know would end it there, so our keys go also where nothing more is asked of us.
    """
    global _looks_again
    torch = sys.modules.get("torch")
    compiled: Any = getattr(torch, "_C", None)
    start = getattr(compiled, "_cuda_init", None)
    if start is None or _looks_again:
        return
    _looks_again = True

    def start_cuda():
        compiled._cuda_init = start
        if _done:
            from .settings import _conf

            _conf.take_from_conf(os.environ)
        else:
            attach_from_environment(importing=False)
        return start()

    compiled._cuda_init = start_cuda


def _record(task: str) -> None:
    from .verify import _recorder

    try:
        _recorder.start(task)
    except Exception as error:
        _explain(error, "running without a recorder")


def _attach_if_asked(importing: bool) -> None:
    global _done
    try:
        from .settings import _conf, _settings

        _conf.take_from_conf(os.environ)
        if not _settings.asked_for(os.environ):
            return
        _done = True
        from .hooks import _threads
        from .job import _job

        if _job.current() is None:
            job = _job.attach(_settings.resolve({}, os.environ))
            if importing and job.settings.rematerializes():
                _threads.follow_main_thread(job.plugin)
    except Exception as error:
        _done = True
        _do_without(error)


def _do_without(error: Exception) -> None:
    """Say why the process has no Tidepool, and end it if it may not run without.

    An exception would not do: a job that tries whether PyTorch is there catches it, and one on
    another thread ends that thread only.
    """
    from .settings import _settings

    if not _settings.required(os.environ):
        _explain(error, "running without Tidepool")
        return
    _explain(error, "this process ends, as the budget cannot be kept (`tidepool run "
                    "--if-possible` goes on without)")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(STATUS_WITHOUT)


def _explain(error: Exception, state: str) -> None:
    from .job import _job, _plugin
    from .settings import _settings

    known = isinstance(error, (_settings.SettingsError, _plugin.AttachError))
    text = str(error) if known else f"{type(error).__name__}: {error}"
    _job.say(f"{state}: {' '.join(text.split())}")
