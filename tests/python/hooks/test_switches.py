"""A change of a switch that decides bits is settled before, and every switch is known. On the real
PyTorch, in a process of its own: the wrapped setters stay.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys

import noting_plugin
import pytest
from tidepool.hooks import _switches

TABLES = {"numeric": set(_switches.NUMERIC), "per thread": _switches.PER_THREAD,
          "attention": _switches.ATTENTION, "not numeric": _switches.NOT_NUMERIC}
pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

JOB = """
import gc, json, sys, torch, warnings
from noting_plugin import NotingPlugin
import torch.backends.miopen, torch.backends.nnpack, torch.backends.quantized
warnings.simplefilter("ignore")
from tidepool.hooks import _switches
plugin = NotingPlugin()
calls = plugin.calls
originals = [getattr(torch._C, name) for name in _switches.NUMERIC if hasattr(torch._C, name)]
_switches.follow_switches(plugin, torch, sys.argv[1])
holders = gc.get_referrers(*originals)
early = [str(type(holder)) for holder in holders
         if holder is not originals and type(holder).__name__ not in ("cell", "frame", "tuple")
         and not (isinstance(holder, dict) and ("__wrapped__" in holder
                                                # Python's copy of what the module had at first.
                                                or "_set_default_tensor_type" in holder))]
seen = {}
def taken():
    done = list(calls)
    calls.clear()
    return done

def twice(name, act):
    act()
    first = taken()
    act()
    seen[name] = [first, taken()]

twice("dtype", lambda: torch.set_default_dtype(torch.float64))
twice("dtype back", lambda: torch.set_default_dtype(torch.float32))
twice("deterministic", lambda: torch.use_deterministic_algorithms(True))
twice("warn only", lambda: torch.use_deterministic_algorithms(True, warn_only=True))
twice("not deterministic", lambda: torch.use_deterministic_algorithms(False))
def set_to(holder, name, value):
    return lambda: setattr(holder, name, value)
twice("fill", set_to(torch.utils.deterministic, "fill_uninitialized_memory", False))
cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
twice("cudnn", set_to(cudnn, "benchmark", True))
twice("cudnn off", set_to(cudnn, "enabled", False))
twice("mkldnn", set_to(torch.backends.mkldnn, "deterministic", True))
twice("fp16 sums", set_to(matmul, "allow_fp16_reduced_precision_reduction", False))
twice("precision", lambda: torch.set_float32_matmul_precision("high"))
twice("precision back", lambda: torch.set_float32_matmul_precision("highest"))
twice("tf32", set_to(matmul, "allow_tf32", True))
twice("tf32 back", set_to(matmul, "allow_tf32", False))
twice("fp32 convolutions", set_to(torch.backends.mkldnn.conv, "fp32_precision", "bf16"))
torch.set_float32_matmul_precision("highest")
taken()
with torch.backends.cudnn.flags(enabled=True, benchmark=True):
    inside = taken()
seen["in a context"] = [inside, taken()]
plugin.fails = True
try:
    torch.set_default_dtype(torch.float64)
except torch.OutOfMemoryError:
    seen["out of memory"] = [str(torch.get_default_dtype()), taken()]
plugin.fails = False
try:
    torch._C._set_default_dtype("nonsense")
except TypeError:
    seen["wrong"] = taken()
words = ("set", "enable", "push", "pop", "clear", "read_file")
names = [name for name in dir(torch._C) if name.startswith(("_set_", "set_"))
         or name.startswith(("_cuda_", "_cudnn_", "_cublas", "_tunable"))
         and any(word in name for word in words) and "_is_" not in name]
print(json.dumps({"seen": seen, "early": early, "names": names,
                  "name": torch._C._set_default_dtype.__name__}))
"""
CHANGE = ["begin", "end"]


def run_job(device: str) -> dict:
    done = subprocess.run([sys.executable, "-c", JOB, device], text=True, capture_output=True,
                          timeout=60, env={**os.environ, "PYTHONPATH": noting_plugin.python_path(),
                                           "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def outcome() -> dict:
    """What the job saw where all switches matter."""
    return run_job("cuda")


def test_every_switch_of_this_pytorch_is_classified(outcome):
    known = [name for table in TABLES.values() for name in table]
    assert len(known) == len(set(known))
    assert sorted(set(outcome["names"]) - set(known)) == [], (
        "new setters: which table of _switches.py do they belong to?")
    assert re.fullmatch("_set_default_dtype", outcome["name"])


def test_a_change_is_settled_and_the_same_again_is_not_a_change(outcome):
    seen = outcome["seen"]
    for name, (first, again) in seen.items():
        if name in ("out of memory", "wrong", "in a context"):
            continue
        assert (first, again) == (CHANGE, []), name
    inside, left = seen["in a context"]
    assert inside and left and inside + left == CHANGE * (len(inside + left) // 2)


def test_what_cannot_be_settled_is_not_changed(outcome):
    assert outcome["seen"]["out of memory"] == ["torch.float32", []]
    assert outcome["seen"]["wrong"] == CHANGE


def test_no_other_way_leads_to_the_setters(outcome):
    assert outcome["early"] == []


def test_what_only_cuda_looks_at_is_not_settled_on_the_cpu():
    assert _switches.NUMERIC.keys() > _switches.CUDA_ONLY.keys()
    seen = run_job("cpu")["seen"]
    for name in ("cudnn", "cudnn off", "fp16 sums"):
        assert seen.pop(name) == [[], []], name
    assert seen.pop("in a context") == [[], []]
    for name in ("out of memory", "wrong"):
        del seen[name]
    assert all(both == [CHANGE, []] for both in seen.values())
