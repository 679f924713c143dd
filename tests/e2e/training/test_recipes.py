"""The recipes of the manual run, one after the other, as the cells of a notebook would."""

import re
import sys
from pathlib import Path

import harness

RECIPES = Path(__file__).resolve().parents[3] / "docs" / "recipes.md"

# Stands for packages that tests have not got: what the recipes use of them.
FRAMEWORKS = """
import sys, types

def module(name, **contents):
    sys.modules[name] = types.SimpleNamespace(**contents)

class Accelerator:
    def __init__(self, log_with):
        self.logged = []
    def log(self, values, step=None, log_kwargs={}):
        self.logged.append(values)

module("transformers", TrainerCallback=object)
module("lightning", pytorch=None)
module("lightning.pytorch", Callback=object)
module("accelerate", Accelerator=Accelerator)
"""
CHECKS = """
stop()
logs = {"loss": 1.0, "learning_rate": 0.1}
trainer = types.SimpleNamespace(callback_handler=types.SimpleNamespace(callbacks=["reporter"]))
log_memory(trainer)
trainer.callback_handler.callbacks[0].on_log(None, types.SimpleNamespace(), None, logs=logs)
assert logs["loss"] == 1.0 and logs["tidepool/reserved_peak_bytes"] > 0
assert trainer.callback_handler.callbacks[1:] == ["reporter"]
batches = []
callbacks[0].on_train_batch_end(None, types.SimpleNamespace(log_dict=batches.append),
                                       None, None, 0)
assert batches[0].keys() == tidepool.metrics().keys() == logs.keys() - {"loss", "learning_rate"}
assert accelerator.logged[0].keys() == {"loss", *batches[0]}
"""


def test_every_recipe_runs(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", RECIPES.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    cells = "\n".join(blocks).replace("64MiB", "16MiB")  # a small model, which fits otherwise
    (tmp_path / "cells.py").write_text(FRAMEWORKS + cells + CHECKS)
    done = harness.run([sys.executable, str(tmp_path / "cells.py")])
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"[1-9]\d* evictions in this step", done.stdout), done.stdout
    assert len(re.findall(r"^tidepool: ", done.stderr, re.MULTILINE)) == 2
