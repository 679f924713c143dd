"""Functions of extension modules are wrapped where these are loaded. On the real PyTorch."""

import importlib.util
import json
import os
import subprocess
import sys

import noting_plugin
import pytest

JOB = """
import importlib.machinery, importlib.util, json, sys, types, torch
from noting_plugin import NotingPlugin
from tidepool.hooks import _extensions, _storages

class Loader(importlib.machinery.ExtensionFileLoader):
    def create_module(self, spec):
        return filled(spec.name)

def filled(name):
    module = types.ModuleType(name)
    module.gelu = torch._C._nn.gelu  # as pybind11's functions are, it says that it takes a Tensor
    module.length = len
    module.Kind = dict
    module.Holder = type("Holder", (), {"__module__": name, "w": property(len, torch._C._nn.gelu)})
    module.inner = types.ModuleType(name + ".inner")
    module.inner.gelu = torch._C._nn.gelu
    module.other = types.ModuleType("elsewhere")
    module.other.gelu = torch._C._nn.gelu
    return module

def spec_of(name):
    return importlib.util.spec_from_loader(name, Loader(name, "/nowhere"))

there = sys.modules["there"] = filled("there")
there.__spec__ = spec_of("there")
plugin = NotingPlugin()
_extensions.follow_extensions(plugin, torch, _storages.storage_finder(torch))

def load(name):
    module = importlib.util.module_from_spec(spec_of(name))
    module.__spec__.loader.exec_module(module)
    return module

seen = {}
x = torch.ones(2)
for module in (there, load("new"), load("torch.own")):
    for name, function in (("", module.gelu), (" inner", module.inner.gelu),
                           (" other", module.other.gelu)):
        plugin.calls.clear()
        seen[module.__name__ + name] = [function(x).shape[0], list(plugin.calls)]
    seen[module.__name__ + " kept"] = module.length is len and module.Kind is dict
new = load("new")
plugin.calls.clear()
new.gelu(torch.nn.Parameter(x))
seen["parameter"] = list(plugin.calls)
plugin.calls.clear()
try:
    new.gelu([x, {"k": x}])
except TypeError:
    seen["nested"] = list(plugin.calls)
plugin.calls.clear()
try:
    new.Holder().w = x
except TypeError:  # the function that stands for a setter
    seen["attribute"] = list(plugin.calls)
_extensions.CPP_FUNCTION = "GeluBackward0"
result = new.gelu(torch.ones(2, requires_grad=True))
plugin.calls.clear()
result.sum().backward()
seen["gradient"] = list(plugin.calls)
print(json.dumps(seen))
"""
CALLED = ["written", "enter", "leave"]


@pytest.fixture(scope="module")
def seen():
    done = subprocess.run([sys.executable, "-c", JOB], text=True, capture_output=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": noting_plugin.python_path(),
                               "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")


@pytest.mark.parametrize("module", ["there", "new"])
def test_functions_that_are_given_tensors_are_wrapped(seen, module):
    assert seen[module] == [2, CALLED]
    assert seen[f"{module} inner"] == [2, CALLED]
    assert seen[f"{module} other"] == [2, []]
    assert seen[f"{module} kept"]


def test_pytorchs_own_are_left_alone(seen):
    assert seen["torch.own"] == [2, []]


def test_what_is_given_counts_as_written(seen):
    assert seen["parameter"] == CALLED
    assert seen["nested"] == ["written", *CALLED]  # also within lists, and in a call that fails


def test_what_an_attribute_is_set_to_stays(seen):
    assert seen["attribute"] == ["escape", "enter", "leave"]


def test_gradients_that_reach_a_function_of_its_are_handed_out(seen):
    assert seen["gradient"] == ["written"]
