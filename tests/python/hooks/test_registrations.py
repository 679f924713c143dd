"""Kernels that replace PyTorch's are noticed whatever registers them. On the real PyTorch, in a
process of its own: what is wrapped stays.
"""

import importlib.util
import json
import os
import subprocess
import sys

import noting_plugin
import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

JOB = """
import gc, json, torch, warnings
from noting_plugin import NotingPlugin
warnings.simplefilter("ignore")
from tidepool.hooks import _registrations
plugin = NotingPlugin()
calls = plugin.calls
early = torch.library.Library("aten", "IMPL")
_registrations.follow_registrations(plugin, torch, "cpu", lambda: {"trusted_of_test"})
seen = {}
def note(name):
    seen[name] = list(calls)
    calls.clear()

def mine(a):
    return torch.zeros_like(a) + 7

x = torch.ones(3)
other = torch.library.Library("torchvision", "FRAGMENT")
other.define("f_of_test(Tensor x) -> Tensor")
other.impl("f_of_test", mine, "CPU")
torch.ops.torchvision.f_of_test(x)
note("another library's")
def its_own(a):
    return a
its_own.__module__ = "torchvision.of_test"
other.impl("f_of_test", mine, "SparseCPU")
note("another library's, again")
other.impl("f_of_test", its_own, "AutocastCPU")
note("its own, above")
other.impl("f_of_test", mine, "AutogradCPU")
note("another's, above")
seen["draws without"] = plugin.draws_are_recorded
lib = torch.library.Library("aten", "IMPL")
lib.impl("special_erfcx", mine, "CPU")
note("impl")
seen["draws"] = plugin.draws_are_recorded
seen["result"] = torch.special.erfcx(x).tolist()
lib.impl(torch.ops.aten.special_i0e.default, mine, "CPU")
lib.impl("aten::add.Tensor", lambda a, b: a, "SparseCPU")
note("other names")
early.impl("special_bessel_j0", mine, "CPU")
note("a library from before")
usual = torch.library.Library("aten", "IMPL", "CPU")
usual.impl("special_i1e", mine)
note("the key of the library")
torch.library.impl("aten::special_i1", "cpu")(mine)
note("decorator")
torch.library.impl(lib, "special_i1", "Autograd")(mine)
note("decorator with a library")
rest = torch.library.Library("_", "IMPL")
rest.fallback(torch.library.fallthrough_kernel, "PrivateUse2")
note("fallthrough")
rest.fallback(lambda op, *args, **kwargs: None, "PrivateUse1")
note("fallback")
own = torch.library.Library("own_of_test", "DEF")
own.define("f(Tensor x) -> Tensor")
own.impl("f", mine, "CPU")
def native(a):
    return a
native.__module__ = "torch._native.ops"
lib.impl("special_log_ndtr", native, "CUDA")
note("PyTorch's own, on another device")
lib.impl("special_log_ndtr", native, "CPU")
note("PyTorch's own")
lib.impl("special_zeta", mine, "AutogradCUDA")
note("another device")
torch.library.register_kernel("own_of_test::f", "cuda", mine)
note("own")
more = torch.library.Library("aten", "FRAGMENT")
more.define("new_of_test(Tensor x) -> Tensor")
note("defined")
more.impl("new_of_test", mine, "Meta")
lib.impl("special_ndtri", mine, "PythonTLSSnapshot")
note("no data")
lib.impl("special_ndtri", mine, "FuncTorchBatched")
note("a batching rule")
torch.func.vmap(torch.sin)(torch.ones(2, 2))
note("vmap")
from torch.nested._internal import nested_tensor
import torch.nested._internal.ops  # has a kernel of its own where there was none
note("nested tensors")
own._destroy()
note("own is gone")
def eager_router(keyset, a, b, _fallback=None):
    return a * 0 + 5
eager_router.__module__ = "torch._native.registry"
routed = torch.library.Library("aten", "IMPL")
routed.impl("baddbmm", eager_router, "CPU", with_keyset=True)
note("a router without a fallback")
def eager_router(keyset, a, b, *, _fallback=None):
    return a * 0 + 5
eager_router.__module__ = "torch._native.registry"
routed.impl("bmm", eager_router, "CUDA", with_keyset=True)
note("a router for another device")
routed.impl("topk", eager_router, "CPU", with_keyset=True)
note("a router that may be called by what draws")
routed.impl("_fused_rms_norm", eager_router, "CPU", with_keyset=True)
note("a router before nothing")
again = torch.library.Library("aten", "IMPL", "CPU")
again.impl("bmm", eager_router, with_keyset=True)
note("router")
torch.bmm(torch.ones(1, 1, 1), torch.ones(1, 1, 1))
note("routed call")
again._destroy()
note("router is gone")
lib.impl("special_hermite_polynomial_h", torch.library.fallthrough_kernel, "CPU")
note("falls through")
trusted = torch.library.Library("trusted_of_test", "DEF")
trusted.define("f(Tensor x) -> Tensor")
trusted.impl("f", mine, "CPU")
note("trusted")
trusted._destroy()
note("trusted is gone")
del usual
gc.collect()
note("gone")
lib._destroy()
note("destroyed")
seen["back"] = torch.special.erfcx(x).tolist()
early._destroy()
note("a library from before is gone")
plugin.fails = True
last = torch.library.Library("aten", "IMPL")
try:
    last.impl("special_erfcx", mine, "CPU")
except torch.OutOfMemoryError:
    seen["out of memory"] = torch.special.erfcx(x).tolist()
plugin.fails = False
try:
    last.impl("special_erfcx", "nonsense", "CPU")
except TypeError:
    note("wrong")
last.impl("special_erfcx", mine, "CPU")
calls.clear()
print(json.dumps(seen))
plugin.fails = True  # at exit nothing is settled
"""


@pytest.fixture(scope="module")
def seen():
    done = subprocess.run([sys.executable, "-c", JOB], text=True, capture_output=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": noting_plugin.python_path(),
                               "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return json.loads(done.stdout)


def settled(*names):
    return [word for name in names for word in ("begin", name, "end")]


def test_every_way_to_replace_a_kernel(seen):
    assert seen["impl"] == settled("aten::special_erfcx") and seen["result"] == [7, 7, 7]
    assert seen["other names"] == settled("aten::special_i0e", "aten::add.Tensor")
    assert seen["the key of the library"] == settled("aten::special_i1e")
    assert seen["decorator"] == seen["decorator with a library"] == settled("aten::special_i1")
    assert seen["a library from before"] == settled("aten::special_bessel_j0")
    assert seen["fallthrough"] == []
    assert seen["falls through"] == settled("aten::special_hermite_polynomial_h")
    assert seen["fallback"] == ["begin", "_", "end"]


def test_what_pytorch_does_for_another_device_is_no_replacement(seen):
    assert seen["PyTorch's own, on another device"] == []
    assert seen["PyTorch's own"] == settled("aten::special_log_ndtr")
    assert seen["another device"] == settled("aten::special_zeta")


def test_a_router_of_pytorchs_replaces_nothing(seen):
    assert seen["router"] == ["begin", "route aten::bmm", "routed", "end"]
    assert seen["routed call"] == ["router"]
    assert seen["router is gone"] == []


def test_what_may_be_no_router_replaces_kernels(seen):
    assert seen["a router without a fallback"] == settled("aten::baddbmm")
    assert seen["a router for another device"] == []
    assert seen["a router that may be called by what draws"] == settled("aten::topk")
    assert seen["a router before nothing"] == settled("aten::_fused_rms_norm")


def test_draws_are_recorded_until_a_kernel_may_run_inside_of_one(seen):
    assert seen["another library's"] == ["torchvision::f_of_test"]
    assert seen["another library's, again"] == settled("torchvision::f_of_test")
    assert seen["its own, above"] == []
    assert seen["another's, above"] == settled("torchvision::f_of_test")
    assert seen["draws without"] and not seen["draws"]


def test_what_is_not_replaced_passes(seen):
    assert seen["no data"] == seen["own"] == seen["own is gone"] == seen["defined"] == []


def test_a_rule_for_wrappers_replaces_nothing(seen):
    assert seen["a batching rule"] == seen["vmap"] == []


def test_a_first_kernel_replaces_nothing(seen):
    assert {*seen["nested tensors"]} == {"aten::_nested_get_jagged_dummy"}


def test_a_kernel_that_is_taken_away(seen):
    assert seen["gone"] == seen["destroyed"] == ["begin", "end", "wrap"]
    assert seen["back"] != [7, 7, 7]
    assert seen["a library from before is gone"] == ["begin", "end", "wrap"]
    assert seen["trusted"] == [] and seen["trusted is gone"] == ["begin", "end"]


def test_what_fails_changes_nothing(seen):
    assert seen["out of memory"] == seen["back"]
    assert seen["wrong"] == []
