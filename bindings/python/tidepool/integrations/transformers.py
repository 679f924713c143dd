"""A callback for the Trainer of Hugging Face's transformers."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ..job import _control


class TidepoolCallback(TrainerCallback):
    """Adds `tidepool.metrics()` to what the Trainer logs, wherever that goes.

        trainer = Trainer(...)
        TidepoolCallback.add_to(trainer)

    Callbacks are called in their order, and those that report (to TensorBoard, the terminal, ...)
    come before what `Trainer(callbacks=...)` is given: so `add_to` puts it in front.
    """

    @classmethod
    def add_to(cls, trainer: Any) -> TidepoolCallback:
        """Have the callback asked before those that report; return it."""
        callback = cls()
        trainer.callback_handler.callbacks.insert(0, callback)
        return callback

    def on_log(self, args: Any, state: Any, control: Any, logs: dict | None = None,
               **_: Any) -> None:
        """Add to the values, and to the Trainer's own history, which has them already."""
        found = _control.metrics()
        if logs is not None:
            logs.update(found)
        history = getattr(state, "log_history", None)
        if history:
            history[-1].update(found)
