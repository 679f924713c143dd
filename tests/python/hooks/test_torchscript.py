"""TorchScript's readers find all contents. On the real PyTorch, in its own process."""

import importlib.util
import json
import os
import subprocess
import sys

import noting_plugin
import pytest

JOB = """
import copy, io, json, sys, torch, warnings
from noting_plugin import NotingPlugin
from typing import List
warnings.simplefilter("ignore")
from tidepool.hooks import _readers, _storages, _torchscript
plugin = NotingPlugin()
calls = plugin.calls
device = sys.argv[1]
_torchscript.follow_torchscript(plugin, torch, _storages.storage_finder(torch), device)
seen = {}
def note(name, act):
    calls.clear()
    seen[name] = [act(), list(calls)]

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
scripted = torch.jit.script(model)
x = torch.ones(2, 4)
note("call", lambda: scripted(x).shape[0])
note("save", lambda: torch.jit.save(scripted, io.BytesIO()))
note("method", lambda: len(scripted.save_to_buffer()) > 0)
note("deepcopy", lambda: copy.deepcopy(scripted)(x).shape[0])
note("freeze", lambda: torch.jit.freeze(scripted.eval())(x).shape[0])
frozen = torch.jit.freeze(scripted)
note("graph", lambda: len(str(frozen.graph)) > 0)
note("trace", lambda: torch.jit.trace(model.eval(), x)(x).shape[0])
note("inference", lambda: torch.jit.optimize_for_inference(scripted)(x).shape[0])

def pack():
    torch.package.package_exporter._gate_torchscript_serialization = False
    with torch.package.PackageExporter(io.BytesIO()) as exporter:
        exporter.save_pickle("model", "model.pkl", scripted)
note("package", pack)

@torch.jit.script
def listed(x: torch.Tensor) -> List[float]:
    y: List[float] = (x * 2).tolist()
    return y

@torch.jit.script
def outer(x: List[torch.Tensor]):
    return listed(x[0]) + listed(x[1])
note("tolist", lambda: listed(torch.ones(2)))
note("within", lambda: outer([torch.ones(1), torch.zeros(1)]))
try:
    listed("nonsense")
except RuntimeError:
    seen["fails"] = calls[-2:]

@torch.jit.script
def described(x: torch.Tensor):
    return str(x * 2)

@torch.jit.script
def forked(x: torch.Tensor):
    return torch.jit.wait(torch.jit.fork(described, x))
note("str", lambda: len(described(torch.ones(2))) > 0)
note("fork", lambda: len(forked(torch.ones(2))) > 0)
class Described(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.BatchNorm1d(2)
    def forward(self, x: torch.Tensor):
        return str(self.inner.running_mean)
said = torch.jit.script(Described())
note("attribute", lambda: len(said(torch.ones(2))) > 0)
static = torch._C._jit_to_static_module(torch.jit.script(model)._c)
seen["constants"] = list(calls)
note("static", lambda: static(torch.ones(2, 4)).shape[0])

@torch.jit.script
def tripled(x: torch.Tensor):
    return x * 3
compiled, one = torch._C, torch.ones(2)
note("unfused", lambda: tripled(one).shape[0])
compiled._jit_override_can_fuse_on_cpu_legacy(True)
note("fused", lambda: tripled(one).shape[0])
compiled._jit_override_can_fuse_on_cpu_legacy(False)
note("fused before", lambda: tripled(one).shape[0])
print(json.dumps(seen))
"""
READ = ["keep", "kept"]
FOLDED = ["begin", *READ, "end"]


def seen_on(device: str, folder) -> dict:
    script = folder / "job.py"  # it needs the source in a file
    script.write_text(JOB)
    done = subprocess.run([sys.executable, str(script), device], text=True, capture_output=True,
                          timeout=60,
                          env={**os.environ, "PYTHONPATH": noting_plugin.python_path(),
                               "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return seen_on("cpu", tmp_path_factory.mktemp("torchscript"))


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_readers_below_python(seen):
    assert seen["call"] == [2, []]
    for name in ("save", "method", "deepcopy", "graph", "package"):
        value, calls = seen[name]
        assert value in (None, True, 2)
        assert calls and calls == READ * (len(calls) // 2), name
    for name in ("freeze", "inference"):
        value, calls = seen[name]
        assert value == 2 and calls[:4] == FOLDED, name
        while calls:
            calls = calls[len(FOLDED if calls[0] == "begin" else READ):]
            assert calls[:2] == READ or calls[:4] in ([], FOLDED), name


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_lists_within_scripted_functions(seen):
    assert seen["tolist"] == [[2, 2], ["enter", "hold", "let go", "leave"]]
    assert seen["within"] == [[2, 0], ["enter", "hold", "hold", "let go", "let go", "leave"]]
    assert seen["fails"] == ["enter", "leave"]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_nodes_that_read_by_themselves(seen):
    reading = ["enter", "hold", "let go", "leave"]
    assert seen["str"] == [True, reading]
    assert seen["fork"] == [True, ["keep", *reading, "kept"]]
    assert seen["attribute"] == [True, ["enter", "hold", "hold", "let go", "let go", "leave"]]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_static_modules_keep_what_they_hold(seen):
    assert seen["constants"].count("escape") >= 4
    assert seen["static"] == [2, ["enter", "hold", "let go", "leave"]]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_what_a_fuser_has_fused_stays_so(seen):
    assert seen["unfused"] == [2, []]
    for name in ("fused", "fused before"):
        assert seen[name] == [2, ["enter", "hold", "let go", "leave"]], name


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_on_cuda_functions_are_fused_by_default(tmp_path):
    assert seen_on("cuda", tmp_path)["unfused"] == [2, ["enter", "hold", "let go", "leave"]]
