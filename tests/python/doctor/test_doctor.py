"""`tidepool doctor`: what it finds, each with advice, and its exit status."""

import copy
import json

import pytest
from tidepool.doctor import _doctor

TRAINED = {"results": ["a", "b"], "seconds": 1.0}
HEALTHY = {
    "version": "1", "shim": "/lib/libtidepool_preload.so",
    "plugins": {"cpu": ["2.11", "2.15"], "cuda": ["2.15"]},
    "settings": [{"key": "budget", "value": "1GiB", "source": "TIDEPOOL_BUDGET",
                  "overridden": []}],
    "in_force": {"asked": True, "text": "budget 1 GiB on cpu", "error": None, "device": "cpu",
                 "budget_bytes": 2**30, "auto": False},
    "folder": {"folder": "/scratch", "capacity_bytes": 2**30, "free_bytes": 2**31,
               "write_bytes_per_s": 5e8, "read_bytes_per_s": 2e9},
    "machine": {"python": "3.11.2", "executable": "python", "system": "Linux 6.1, x86_64",
                "memory_bytes": 2**34, "available_bytes": 2**33, "cgroup_bytes": None,
                "address_bytes": None, "overcommit": 0, "preloaded": [],
                "shared": {"total_bytes": 2**33, "free_bytes": 2**32}},
    "devices": {
        "cpu": {"inspect": {**TRAINED, "version": "2.15.0", "file": "torch", "cuda": "13",
                            "entry_point": True, "plugins": {"cpu": "", "cuda": ""}, "gpus": []},
                "attached": {**TRAINED, "attached": True, "evictions": 9, "replays": 12,
                             "different": False}},
        "cuda": {"inspect": {**TRAINED, "version": "2.15.0", "driver": "13.0", "gpus": [
                     {"name": "GPU", "total_bytes": 2**36, "free_bytes": 2**35,
                      "virtual_memory": True}]},
                 "attached": {**TRAINED, "attached": True, "evictions": 9, "replays": 12,
                              "different": False}}},
}


def facts_with(path: str = "", value=None) -> dict:
    """Return healthy facts but for the value at a path of keys, joined by "/"."""
    facts = copy.deepcopy(HEALTHY)
    *way, last = path.split("/")
    place = facts
    for key in way:
        place = place[key]
    if path:
        place[last] = value
    return facts


def test_nothing_is_found_where_all_is_well():
    assert _doctor.findings(facts_with(), {}) == []
    text = _doctor.report({**facts_with(), "findings": [], "healthy": True})
    assert "the same bits, 9 evictions, 12 operators replayed" in text
    assert text.endswith("\nhealthy") and "Findings" not in text
    assert "budget  1GiB  TIDEPOOL_BUDGET" in text
    assert "/scratch: 2 GiB free, writes 0.50 GB/s, reads 2.00 GB/s" in text
    assert "Offload" not in _doctor.report(
        {**facts_with("folder", None), "findings": [], "healthy": True})


@pytest.mark.parametrize("path, value, severity, what", [
    ("machine/python", "3.10.1", "warning", "Python 3.10.1"),
    ("machine/system", "Linux 6.1, aarch64", "error", "aarch64"),
    ("shim", None, "error", "preload library is missing"),
    ("shim", "/a b/lib.so", "error", "blanks or colons"),
    ("devices/cpu/inspect", {"failed": "No module named 'torch'"}, "error", "PyTorch cannot be"),
    ("devices/cpu/inspect/plugins", {"cpu": "no plugin for PyTorch 2.9"}, "error", "no plugin"),
    ("devices/cpu/inspect/entry_point", False, "warning", "not installed beside PyTorch"),
    ("in_force/error", "budget 'x': expected a size", "error", "budget 'x'"),
    ("in_force/budget_bytes", 2**35, "warning", "more than the 8 GiB"),
    ("machine/address_bytes", 2**33, "warning", "limited to 8 GiB"),
    ("machine/overcommit", 2, "warning", "overcommit_memory"),
    ("machine/shared", {"total_bytes": 64 << 20, "free_bytes": 0}, "warning", "64 MiB"),
    ("machine/shared", None, "warning", "/dev/shm has none"),
    ("machine/preloaded", ["libjemalloc.so"], "warning", "libjemalloc.so"),
    ("folder", {"failed": "/scratch: disk quota exceeded"}, "error", "disk quota exceeded"),
    ("folder/free_bytes", 2**29, "warning", "1 GiB in /scratch, where 512 MiB are free"),
    ("devices/cpu/attached", {"failed": "RuntimeError: x"}, "error", "failed: RuntimeError: x"),
    ("devices/cpu/attached/evictions", 0, "error", "evicted nothing"),
    ("devices/cuda/attached/results", ["a", "c"], "error", "cuda gave other bits"),
    ("devices/cpu/attached/different", True, "error", "cpu gave other bits"),
    ("devices/cuda/inspect/gpus", [{"name": "Old", "virtual_memory": False}], "error", "Old has"),
])
def test_what_is_wrong_is_found_with_advice(path, value, severity, what):
    (found,) = _doctor.findings(facts_with(path, value), {})
    assert found.severity == severity and what in found.what and found.advice


@pytest.mark.parametrize("variable, value, severity", [
    ("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", "warning"),
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "error"),
    ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", "error"),
])
def test_variables_in_the_way_are_found(variable, value, severity):
    (found,) = _doctor.findings(facts_with(), {variable: value})
    assert found.severity == severity and variable in found.what
    on_cpu = facts_with()
    del on_cpu["devices"]["cuda"]
    assert bool(_doctor.findings(on_cpu, {variable: value})) == (severity == "warning")


def test_a_setting_that_lost_is_named_with_the_winner():
    facts = facts_with()
    facts["settings"][0]["overridden"] = [("PYTORCH_ALLOC_CONF", "2GiB")]
    (found,) = _doctor.findings(facts, {})
    assert "'2GiB' of PYTORCH_ALLOC_CONF" in found.what and "TIDEPOOL_BUDGET" in found.what


def test_a_torch_that_cannot_be_used_is_no_crash(installation):
    done = installation.tidepool("doctor", "--json", check=1, FAKE_TORCH_FAILS="1",
                                 TIDEPOOL_BUDGET="1GiB", PYTORCH_ALLOC_CONF="tidepool_budget:2GiB")
    facts = json.loads(done.stdout)
    assert not facts["healthy"] and facts["plugins"]["cpu"] == ["9.1"]
    errors = [each["what"] for each in facts["findings"] if each["severity"] == "error"]
    assert errors == ["PyTorch cannot be used: ImportError: this torch is broken"]
    assert any("'2GiB' of PYTORCH_ALLOC_CONF" in each["what"] for each in facts["findings"])
    text = installation.tidepool("doctor", check=1, FAKE_TORCH_FAILS="1").stdout
    assert "not healthy" in text and "Traceback" not in text
