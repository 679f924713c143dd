"""The callbacks on the frameworks themselves where they are installed, and else on what stands for
them: the part of each that a callback meets, with the signatures that the frameworks have."""

import importlib
import importlib.util
import inspect
import subprocess
import sys
import types

import pytest
from tidepool.job import _control

METRICS = {"tidepool/evictions": 3.0, "tidepool/reserved_peak_bytes": 4096.0}


class TrainerCallback:
    def on_log(self, args, state, control, **kwargs):
        pass


class Callback:
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        pass


class Accelerator:
    def log(self, values, step=None, log_kwargs={}):  # noqa: B006  as it is there
        pass


STANDING_IN = {"transformers": ("transformers", TrainerCallback),
               "lightning": ("lightning.pytorch", Callback),
               "accelerate": ("accelerate", Accelerator)}


@pytest.fixture(params=sorted(STANDING_IN))
def integration(request, monkeypatch):
    """A module of tidepool.integrations, imported with what stands for its framework."""
    framework = request.param
    name, standing_in = STANDING_IN[framework]
    monkeypatch.setitem(sys.modules, framework, types.ModuleType(framework))
    module = types.ModuleType(name)
    setattr(module, standing_in.__name__, standing_in)
    monkeypatch.setitem(sys.modules, name, module)
    ours = f"tidepool.integrations.{framework}"
    monkeypatch.delitem(sys.modules, ours, raising=False)
    imported = importlib.import_module(ours)
    yield framework, imported, standing_in
    sys.modules.pop(ours, None)


@pytest.fixture(autouse=True)
def known_metrics(monkeypatch):
    monkeypatch.setattr(_control, "metrics", lambda: dict(METRICS))


def test_each_hands_metrics_to_its_framework(integration):
    framework, ours, standing_in = integration
    if framework == "transformers":
        step = {"loss": 1.0, "learning_rate": 0.1}
        logs = dict(step)
        state = types.SimpleNamespace(log_history=[{"loss": 1.0, "step": 7}])
        handler = types.SimpleNamespace(callbacks=["reporter"])
        callback = ours.TidepoolCallback.add_to(types.SimpleNamespace(callback_handler=handler))
        assert handler.callbacks == [callback, "reporter"]
        callback.on_log(None, state, None, logs=logs, model=None)
        assert logs == {**step, **METRICS}
        evaluation = {"eval_loss": 1.0, "epoch": 2.0}
        callback.on_log(None, types.SimpleNamespace(log_history=[]), None, logs=evaluation)
        assert evaluation == {"eval_loss": 1.0, "epoch": 2.0}  # which evaluate() returns
        assert state.log_history == [{"loss": 1.0, "step": 7, **METRICS}]
    elif framework == "lightning":
        logged = []
        module = types.SimpleNamespace(log_dict=logged.append)
        ours.TidepoolCallback().on_train_batch_end(None, module, None, None, 0)
        assert logged == [METRICS]
    else:
        logged = []

        class Listening(standing_in):
            def log(self, values, step=None, log_kwargs={}):  # noqa: B006
                logged.append((values, step, log_kwargs))

        ours.log(Listening(), {"loss": 1.0}, step=3)
        assert logged == [({"loss": 1.0, **METRICS}, 3, {})]


@pytest.mark.parametrize("framework", sorted(STANDING_IN))
def test_what_stands_in_is_as_the_framework_is(framework):
    name, standing_in = STANDING_IN[framework]
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    real = getattr(importlib.import_module(name), standing_in.__name__)
    for method in ("on_log", "on_train_batch_end", "log"):
        if hasattr(standing_in, method):
            mine = inspect.signature(getattr(standing_in, method))
            theirs = inspect.signature(inspect.unwrap(getattr(real, method)))
            assert [(each.name, each.kind) for each in mine.parameters.values()] == \
                [(each.name, each.kind) for each in theirs.parameters.values()]


def test_a_job_that_uses_none_imports_none():
    names = [*STANDING_IN, "tidepool.integrations"]
    done = subprocess.run(
        [sys.executable, "-c", "import sys, tidepool\n"
         f"print([name for name in {names!r} if name in sys.modules])"],
        capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
