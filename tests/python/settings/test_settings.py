"""Settings: sources and their order, and that every error names the input and what is right."""

import sys
from pathlib import Path

import pytest
from tidepool.settings import _catalog, _conf, _offload, _settings, _sizes
from tidepool.settings._settings import SettingsError, resolve

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bindings" / "python"))

import generate_policies


def test_defaults():
    settings = resolve({"budget": "2GiB"}, {})
    assert settings.for_plugin() == {"device": "cpu", "budget_bytes": 2**31, "policy": "planned",
                                     "chaos": "none"}
    assert settings.describe() == "budget 2 GiB on cpu, policy planned"


def test_arguments_win_over_variables_and_variables_over_conf_keys():
    environ = {"PYTORCH_ALLOC_CONF": "tidepool_budget:1GiB,tidepool_policy:coop,tidepool_chaos:op",
               "TIDEPOOL_BUDGET": "2GiB", "TIDEPOOL_POLICY": "dtr-eq"}
    _conf.take_from_conf(environ)
    settings = resolve({"budget": 3 * 2**30, "policy": None}, environ)
    assert (settings.budget_bytes, settings.policy, settings.chaos) == (3 * 2**30, "dtr-eq", "op")
    assert "PYTORCH_ALLOC_CONF" not in environ


def test_everything_arrives():
    settings = resolve({}, {
        "TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_CHAOS": "random:7", "TIDEPOOL_POISON": "1",
        "TIDEPOOL_PAGE": "64KiB", "TIDEPOOL_QUIET": "yes", "TIDEPOOL_STATS": "x.json",
        "TIDEPOOL_LIMIT_DEPTH": "3", "TIDEPOOL_LIMIT_VERSIONS": "4", "TIDEPOOL_LIMIT_AGE": "5",
        "TIDEPOOL_LIMIT_RECORDS": "6", "TIDEPOOL_LIMIT_BOOKKEEPING": "7MiB",
        "TIDEPOOL_ALLOCATOR": "arena", "TIDEPOOL_COSTS": "x",
        "TIDEPOOL_FULL": "1", "TIDEPOOL_ROOM": "windows+moves"})
    assert settings.for_plugin() == {
        "device": "cpu", "budget_bytes": 2**30, "policy": "planned", "chaos": "random:7",
        "poison": True, "page_bytes": 65536, "allow_remap": False,
        "limits": {"depth": 3, "versions": 4, "age_steps": 5, "records": 6,
                   "bookkeeping_bytes": 7 << 20}}
    assert (settings.quiet, settings.stats) == (True, "x.json")


def test_a_setting_with_an_entry_needs_nothing_else(monkeypatch):
    added = [_catalog.Setting("depth_of_field", "NUMBER", "1", "", entry="lens.depth"),
             _catalog.Setting("focus", "MODE", "auto", "", entry="focus", choices=("auto", "off"))]
    monkeypatch.setattr(_settings, "SETTINGS", (*_catalog.SETTINGS, *added))
    monkeypatch.setattr(_settings, "KEYS", (*_catalog.KEYS, "depth_of_field", "focus"))
    given = {"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_DEPTH_OF_FIELD": "3"}
    plugin = resolve({}, {**given, "TIDEPOOL_FOCUS": "off"}).for_plugin()
    assert (plugin["lens"], plugin["focus"]) == ({"depth": 3}, "off")
    assert "focus" not in resolve({}, {**given, "TIDEPOOL_FOCUS": "auto"}).for_plugin()
    with pytest.raises(SettingsError, match=r"TIDEPOOL_FOCUS 'of': .*did you mean off\?"):
        resolve({}, {**given, "TIDEPOOL_FOCUS": "of"})


def test_entries_have_values_that_can_be_read():
    entries = [setting for setting in _catalog.SETTINGS if setting.entry]
    assert all(setting.choices or setting.value in _settings.VALUES for setting in entries)


def test_old_names_are_taken():
    settings = resolve({}, {"TIDEPOOL_BUDGET": "1GiB",
                            "TIDEPOOL_HANDLE": "64KiB",  # the old name
                            "TIDEPOOL_POLICY": "need1"})  # the old name
    assert (settings.entries["page_bytes"], settings.policy) == (65536, "needed-cost")
    assert _settings.asked_for({"TIDEPOOL_HANDLE": "64KiB"})  # the old name


@pytest.mark.parametrize("text, steps", [
    ("3", (3, 3)), ("2:4", (2, 4)), ("2:", (2, None)), ("7:7", (7, 7))])
def test_a_trace_needs_no_budget(text, steps):
    settings = resolve({"trace": "out.gz", "trace_steps": text}, {})
    assert (settings.trace, settings.trace_steps) == ("out.gz", steps)
    assert settings.budget_bytes > 2**20
    assert resolve({"trace": "out.gz", "device": "cuda"}, {}).budget_auto


@pytest.mark.parametrize("before, after, moved", [
    ("backend:tidepool,tidepool_budget:1GiB", None, {"BACKEND": "tidepool", "BUDGET": "1GiB"}),
    ("expandable_segments:True", "expandable_segments:True", {}),
    ("backend:native,tidepool_chaos:random:7", "backend:native", {"CHAOS": "random:7"}),
    ("a:[256:1,>:2], tidepool_budget : 1GiB ,b:1", "a:[256:1,>:2],b:1", {"BUDGET": "1GiB"}),
])
def test_conf_keys_are_moved(before, after, moved):
    environ = {"PYTORCH_CUDA_ALLOC_CONF": before}
    _conf.take_from_conf(environ)
    assert environ.pop("PYTORCH_CUDA_ALLOC_CONF", None) == after
    assert environ == {f"TIDEPOOL_{key}": value for key, value in moved.items()}


@pytest.mark.parametrize("environ, parts", [
    ({"TIDEPOOL_TRACE": "x", "TIDEPOOL_TRACE_STEPS": "4:2"}, ["'4:2'", "FIRST:LAST"]),
    ({"TIDEPOOL_TRACE": "x", "TIDEPOOL_TRACE_STEPS": "0"}, ["'0'", "from 1"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_PAGE": "3"}, ["TIDEPOOL_PAGE '3'", "power of two"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_PAGE": "12KiB"}, ["'12KiB'", "power of two"]),
    ({"TIDEPOOL_BUDGET": "1"}, ["TIDEPOOL_BUDGET '1'", "a page at least (4 KiB)"]),
    ({"TIDEPOOL_BUDGET": "100000TiB"}, ["'100000TiB'", "16 TiB at most"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_LIMIT_DEPTH": "9" * 5000}, ["whole number"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_LIMIT_DEPTH": "4294967296"}, ["whole number"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_OFFLOAD": "file:/\udc80:1GiB"}, ["path in UTF-8"]),
    ({"TIDEPOOL_TRACE": "x", "TIDEPOOL_TRACE_STEPS": "1:2:3"}, ["'1:2:3'"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_TRACE_STEPS": "3"},
     ["TIDEPOOL_TRACE_STEPS '3'", "expected the setting trace with it"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_RECORD_SIZE": "1MiB"}, ["setting record with it"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_KEEP": "a::b"}, ["setting trust or replay with it"]),
    ({"TIDEPOOL_TRACE": "x", "TIDEPOOL_DEVICE": "cuda", "TIDEPOOL_POLICY": "none"},
     ["TIDEPOOL_TRACE", "expected none where nothing is evicted"]),
    ({"TIDEPOOL_BUDGET": "8gib"}, ["TIDEPOOL_BUDGET", "'8gib'", "GiB"]),
    ({"TIDEPOOL_BUDGET": "0"}, ["TIDEPOOL_BUDGET", "'0'", "more than zero"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_POLICY": "neded-cost"},
     ["TIDEPOOL_POLICY", "'neded-cost'", "did you mean needed-cost", "coop, dtr, dtr-eq"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_CHAOS": "aloc"}, ["'aloc'", "did you mean alloc"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_CHAOS": "random"}, ["'random'", "random:7"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_CHAOS": "bounded:"}, ["'bounded:'", "bounded:7"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_ROOM": "window+remap"},
     ["TIDEPOOL_ROOM", "'window+remap'", "did you mean windows"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_ROOM": "moves"}, ["'moves'", "windows or remap"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_CHAOS": "random:x"}, ["'random:x'", "random:7"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_DEVICE": "cup"}, ["'cup'", "did you mean cpu"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_DEVICE": "cuda", "TIDEPOOL_CHAOS": "op",
      "TIDEPOOL_ALLOCATOR": "native"},
     ["TIDEPOOL_CHAOS 'op'", "where nothing is evicted", "allocator native"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_DEVICE": "cpu", "TIDEPOOL_POLICY": "none"},
     ["TIDEPOOL_POLICY 'none'", "on cpu", "device cuda"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_ALLOCATOR": "native"},
     ["TIDEPOOL_ALLOCATOR 'native'", "arena"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_ALLOCATOR": "naitve", "TIDEPOOL_DEVICE": "cuda"},
     ["'naitve'", "did you mean native"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_POISON": "2"}, ["TIDEPOOL_POISON", "'2'", "1 or 0"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_PAGE": "5%"}, ["TIDEPOOL_PAGE", "'5%'", "2MiB"]),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_LIMIT_AGE": "0"}, ["LIMIT_AGE", "'0'", "above zero"]),
    ({"TIDEPOOL_BUDGTE": "1GiB"}, ["TIDEPOOL_BUDGTE", "did you mean TIDEPOOL_BUDGET?"]),
    ({"TIDEPOOL_STATS": "x.json"}, ["no budget", "TIDEPOOL_STATS", "TIDEPOOL_BUDGET"]),
    ({"TIDEPOOL_BACKEND": "tidepool"}, ["no budget"]),
])
def test_errors_name_the_input(environ, parts):
    with pytest.raises(SettingsError) as caught:
        resolve({}, environ)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("mode", ["bounded", "bounded:12", "random:7", "alloc"])
def test_modes_of_chaos(mode):
    assert resolve({"chaos": mode}, {}).chaos == mode


def test_chaos_alone_is_enough():
    assert resolve({"chaos": "op"}, {}).budget_bytes > 2**26
    assert _settings.asked_for({"TIDEPOOL_CHAOS": "op"})


@pytest.mark.parametrize("environ, asked", [
    ({}, False), ({"TIDEPOOL_BUDGET": ""}, False), ({"TIDEPOOL_BUDGET": "1GiB"}, True),
    ({"TIDEPOOL_FULL": "1"}, False), ({"TIDEPOOL_QUIET": "1", "TIDEPOOL_COSTS": "x"}, False),
    ({"TIDEPOOL_BUDGTE": "1"}, True), ({"TIDEPOOL_BACKEND": "tidepool"}, True),
    ({"TIDEPOOL_WEBSITE_ADDRESS": "x"}, False),
])
def test_who_asks(environ, asked):
    assert _settings.asked_for(environ) is asked


def test_a_gpu_makes_cuda_the_default(monkeypatch):
    monkeypatch.setattr(_settings, "gpu_is_visible", lambda: True)
    assert resolve({"budget": "1GiB"}, {}).device == "cuda"
    assert resolve({"budget": "1GiB", "device": "cpu"}, {}).device == "cpu"


def test_a_share_of_a_gpus_memory_is_known_once_there_is_one():
    settings = resolve({"budget": "80%", "device": "cuda"}, {})
    assert (settings.budget_bytes, settings.budget_share) == (0, 0.8)
    assert settings.for_plugin()["budget_share"] == 0.8
    assert "80% on each cuda device" in settings.describe()
    assert "budget_share" not in resolve({"budget": "80%", "device": "cpu"}, {}).for_plugin()


def test_a_budget_may_be_what_there_is():
    on_cuda = resolve({"budget": "auto", "device": "cuda"}, {})
    assert on_cuda.for_plugin()["budget_auto"] is True
    assert "budget auto on each cuda device" in on_cuda.describe()
    on_cpu = resolve({}, {"TIDEPOOL_BUDGET": "AUTO", "TIDEPOOL_DEVICE": "cpu"})
    assert 0 < on_cpu.for_plugin()["budget_bytes"] < _sizes.cpu_memory_bytes()
    assert "budget_auto" not in on_cpu.for_plugin()
    assert "budget auto (" in on_cpu.describe()


@pytest.mark.parametrize("given, environ, visible, budget", [
    ({}, {}, True, "auto"), ({}, {}, False, None),
    ({"device": "cuda"}, {}, False, "auto"), ({"device": "cpu"}, {}, True, None),
    ({}, {"TIDEPOOL_DEVICE": "cpu"}, True, None), ({}, {"TIDEPOOL_DEVICE": "cuda"}, False, "auto"),
])
def test_a_job_on_a_gpu_needs_no_budget(monkeypatch, given, environ, visible, budget):
    monkeypatch.setattr(_settings, "gpu_is_visible", lambda: visible)
    assert _settings.default_budget(given, environ) == budget


def test_the_backend_alone_means_all_of_a_gpus_memory():
    environ = {"TIDEPOOL_BACKEND": "tidepool"}
    settings = resolve({"device": "cuda"}, environ)
    assert settings.budget_auto
    assert settings.for_plugin()["budget_auto"] is True
    with pytest.raises(SettingsError, match="no budget given"):
        resolve({"device": "cpu"}, environ)


def test_policies_are_those_of_the_runtime():
    table = generate_policies.TABLE.read_text(encoding="utf-8")
    assert generate_policies.text(table) == generate_policies.NAMES.read_text(encoding="utf-8")
    more = table.replace('    {"coop",', '    {"newest", nothing},\n    {"coop",')
    assert '    "newest",\n    "coop",' in generate_policies.text(more)
    with pytest.raises(generate_policies.TableError, match="kBaselines"):
        generate_policies.text(table.replace("kBaselines[]", "kOthers[]"))


@pytest.mark.parametrize("size", [4 << 30, 123456789])
def test_a_tier_is_described_to_the_byte(tmp_path, size):
    for tier in (_offload.FileTier(str(tmp_path), size), _offload.HostTier(size)):
        assert _offload.parse(tier.describe()) == tier
