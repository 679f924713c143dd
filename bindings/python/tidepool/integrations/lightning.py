"""A callback for the Trainer of Lightning."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback

from ..job import _control


class TidepoolCallback(Callback):
    """Logs `tidepool.metrics()` after each batch, as the module's own values are logged.

        Trainer(callbacks=[TidepoolCallback()])
    """

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        """Hand the values to the module, which the Trainer's loggers hear of."""
        pl_module.log_dict(_control.metrics())
