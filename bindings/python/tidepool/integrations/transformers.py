"""A callback for the Trainer of Hugging Face's transformers."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ..job import _control

_RATE = "learning_rate"  # is logged of steps, and of nothing else


class TidepoolCallback(TrainerCallback):
    """Adds `tidepool.metrics()` to what the Trainer logs of steps, wherever that goes.

    What it logs of an evaluation or of the whole training it returns as well, and searches for
    hyperparameters add that up: nothing is added there.

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
        if logs is None or _RATE not in logs:
            return
        found = _control.metrics()
        logs.update(found)
        history = getattr(state, "log_history", None)
        if history:
            history[-1].update(found)
