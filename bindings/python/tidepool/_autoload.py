"""Attaching without a line in the job: from PyTorch's entry point and from the preload shim.

Neither ever raises: a job that cannot have Tidepool gets one line and runs as without it.
"""

from __future__ import annotations

import os
import sys

_done = False  # the entry point and the shim both come by, whichever is there
_looks_again = False  # when CUDA starts
suspended = False  # `enable()` is importing torch: its arguments win over the environment


def autoload() -> None:
    """Be the entry point of the group `torch.backends`, called at the end of `import torch`."""
    attach_from_environment()


def attach_from_environment() -> None:
    """Attach if the environment asks for it, and record the job's steps for `tidepool verify`."""
    global _done
    if _done or suspended:
        return
    _attach_if_asked()
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
    compiled = getattr(torch, "_C", None)
    start = getattr(compiled, "_cuda_init", None)
    if start is None or _looks_again:
        return
    _looks_again = True

    def start_cuda():
        compiled._cuda_init = start
        if _done:
            from . import _settings

            _settings.take_from_conf(os.environ)
        else:
            attach_from_environment()
        return start()

    compiled._cuda_init = start_cuda


def _record(task: str) -> None:
    from . import _recorder

    try:
        _recorder.start(task)
    except Exception as error:
        _explain(error, "running without a recorder")


def _attach_if_asked() -> None:
    global _done
    try:
        from . import _settings

        _settings.take_from_conf(os.environ)
        if not _settings.asked_for(os.environ):
            return
        _done = True
        from . import _job

        if _job.current() is None:
            _job.attach(_settings.resolve({}, os.environ))
    except Exception as error:
        _done = True
        _explain(error)


def _explain(error: Exception, state: str = "running without Tidepool") -> None:
    from . import _job, _plugin, _settings

    known = isinstance(error, (_settings.SettingsError, _plugin.AttachError))
    text = str(error) if known else f"{type(error).__name__}: {error}"
    _job.say(f"{state}: {' '.join(text.split())}")
