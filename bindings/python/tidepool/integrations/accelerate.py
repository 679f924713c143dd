"""What an Accelerator logs, with what Tidepool did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..job import _control

if TYPE_CHECKING:
    from accelerate import Accelerator


def log(accelerator: Accelerator, values: dict[str, Any], step: int | None = None,
        log_kwargs: dict[str, dict] | None = None) -> None:
    """Call `accelerator.log` with these values and `tidepool.metrics()`."""
    accelerator.log({**values, **_control.metrics()}, step=step, log_kwargs=log_kwargs or {})
