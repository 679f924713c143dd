"""What generated code of torch.compile reads stays: inputs, intermediates and constants."""

import contextlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import types

import noting_plugin
import pytest
from tidepool.hooks import _compiled

PARTS = {"GRAPHS": "class CompiledFxGraph:\n"
                   "    def __call__(self, inputs):\n        return 'ran'\n",
         "COMPILER": "def compile_fx(model):\n    return model\n",
         "CODE": "class PyCodeCache:\n    @classmethod\n"
                 "    def load_by_key_path(cls, key, path, linemap=None, attrs=None):\n"
                 "        return key, attrs\n"}


class Plugin:
    """Notes what it is told."""

    def __init__(self):
        self.calls = []

    def written(self, storage):
        self.calls.append(("written", storage))

    def escape(self, storage):
        self.calls.append(("escape", storage))

    @contextlib.contextmanager
    def region(self):
        self.calls.append("enter")
        try:
            yield
        finally:
            self.calls.append("leave")


@pytest.fixture
def plugin():
    return Plugin()


def storage_of(value):
    return value if isinstance(value, int) else 0


def test_an_out_of_memory_error_keeps_pytorchs_class(plugin, monkeypatch):
    class Compiled:
        def __call__(self, inputs):
            raise RuntimeError(inputs[0])

    class OutOfMemoryError(RuntimeError):
        pass

    monkeypatch.setitem(sys.modules, "torch",
                        types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError))
    _compiled.wrap_graphs(types.SimpleNamespace(CompiledFxGraph=Compiled), plugin, storage_of)
    with pytest.raises(OutOfMemoryError, match="16 KiB"):
        Compiled()(["out of memory: 16 KiB were asked for"])
    with pytest.raises(RuntimeError, match="another") as raised:
        Compiled()(["another error"])
    assert raised.type is RuntimeError


def test_a_graph_runs_in_a_region_after_its_inputs_are_marked(plugin):
    class Compiled:
        def __call__(self, inputs, fails=False):
            plugin.calls.append("ran")
            if fails:
                raise ValueError
            return list(inputs)

    _compiled.wrap_graphs(types.SimpleNamespace(CompiledFxGraph=Compiled), plugin, storage_of)
    assert Compiled()([7, "no tensor", 8]) == [7, "no tensor", 8]
    around = [("written", 7), ("written", 8), "enter", "ran", "leave"]
    assert plugin.calls == around
    with pytest.raises(ValueError):
        Compiled()([], fails=True)
    assert plugin.calls == [*around, "enter", "ran", "leave"]


def test_models_compiled_ahead_of_time(plugin):
    class Runner:
        def run(self, inputs):
            return "ran"

        def update_constant_buffer(self, constants, *flags):
            return flags

    _compiled.wrap_runners(types.SimpleNamespace(Runner=Runner, value=3), plugin, storage_of)
    assert Runner().run([5]) == "ran"
    assert Runner().update_constant_buffer({"w": 6, "name": "x"}, True) == (True,)
    assert plugin.calls == [("written", 5), "enter", "leave", ("escape", 6)]


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Modules that stand for the compiler's, not imported yet: their names by what they are."""
    names = {}
    for part, source in PARTS.items():
        names[part] = f"{part.lower()}_of_test"
        (tmp_path / f"{names[part]}.py").write_text(source)
        monkeypatch.setattr(_compiled, part, names[part])
    monkeypatch.syspath_prepend(str(tmp_path))
    yield names
    for name in names.values():
        sys.modules.pop(name, None)


@pytest.mark.parametrize("imported_before", [True, False])
def test_the_compiler_is_found_whenever_it_is_imported(modules, plugin, imported_before):
    finders = len(sys.meta_path)
    if imported_before:
        for name in modules.values():
            importlib.import_module(name)
    torch = types.SimpleNamespace(_C=types.SimpleNamespace())
    _compiled.follow_compiled_graphs(plugin, torch, storage_of)
    graphs, compiler, code = (importlib.import_module(name) for name in modules.values())
    assert graphs.CompiledFxGraph()([5]) == "ran"
    assert compiler.compile_fx("model") == "model"
    assert code.PyCodeCache.load_by_key_path("k", "p", attrs={"c": 9, "d": "x"}) == (
        "k", {"c": 9, "d": "x"})
    assert plugin.calls == [("written", 5), "enter", "leave", "enter", "leave", ("escape", 9)]
    assert len(sys.meta_path) == finders


REAL = """
import json, torch, warnings
from noting_plugin import NotingPlugin
warnings.simplefilter("ignore")
from tidepool.hooks import _compiled, _storages
plugin = NotingPlugin()
calls = plugin.calls
_compiled.follow_compiled_graphs(plugin, torch, _storages.storage_finder(torch))
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(2) * 2)
    def forward(self, x):
        return torch.mm(x, self.weight)  # library calls alone, which are quick to compile
model = Model()
x = torch.tensor([[3.0, 1.0], [2.0, 5.0]])
def follow(compiled):
    outcomes = []
    with torch.no_grad():
        for _ in range(2):
            outcomes += [compiled(x).tolist(), list(calls)]
            calls.clear()
    return outcomes
plain = follow(torch.compile(model))
torch._inductor.config.freezing = True
torch._dynamo.reset()
print(json.dumps([plain, follow(torch.compile(model.eval()))]))
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_the_real_compiler_ends_in_what_is_wrapped(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(REAL)
    done = subprocess.run([sys.executable, str(script)], text=True, capture_output=True,
                          timeout=120, env={**os.environ, "PYTHONPATH": noting_plugin.python_path(),
                                            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
                                            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"})
    assert done.returncode == 0, done.stderr
    (first, compiling, again, running), frozen = json.loads(done.stdout)
    assert first == again == frozen[0] == frozen[2] == [[6, 2], [4, 10]]
    assert compiling.count("enter") == compiling.count("leave") >= 3
    assert running == ["written", "written", "enter", "leave"]
    assert "escape" not in compiling and frozen[1].count("escape") == 1  # the weight
    assert frozen[3] == ["written", "enter", "leave"]
