"""The library for C++ programs reads settings as the package does, and refuses them alike."""

import ctypes
import os
from pathlib import Path

import pytest
from tidepool.settings import _catalog, _settings

LIBRARY = Path(__file__).resolve().parents[3] / "build" / "dev" / "lib" / "libtidepool.so"
TEXTS = ("budget", "policy", "device", "chaos", "offload", "stats", "trace", "trace_steps")
WRONG_SETTING, CANNOT_ATTACH, NOT_ATTACHED = 3, 4, 5


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), *((name, ctypes.c_char_p) for name in TEXTS),
                ("quiet", ctypes.c_int)]


@pytest.fixture(scope="module")
def library():
    found = ctypes.CDLL(str(LIBRARY))
    found.tidepool_error.restype = ctypes.c_char_p
    found.tidepool_read_stats.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    return found


def enable(library, **given: str) -> tuple[int, str]:
    values = {key: text.encode() for key, text in given.items()}
    options = Options(size=ctypes.sizeof(Options), **values)
    return library.tidepool_enable(ctypes.byref(options)), library.tidepool_error().decode()


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in [name for name in os.environ if name.startswith("TIDEPOOL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.parametrize("given", [
    {}, {"policy": "lru"}, {"stats": "x.json"},
    *({"budget": text} for text in (
        "8GiBB", "8 gib", "12x", "8g", "0", "0GiB", "1.5", "120%", "-3", "none", "8kib")),
    *({"budget": "1GiB", key: text} for key, text in (
        ("policy", "plannd"), ("policy", "none"), ("policy", "zzz"), ("device", "cdua"),
        ("chaos", "opp"), ("chaos", "random"), ("chaos", "random:x"), ("chaos", "offload:1"),
        ("offload", "host:1GiB"), ("offload", "disk"), ("offload", "file:/no/such:1GiB"),
        ("offload", "file:/tmp:zero"), ("offload", "host:1GiB,file:/tmp:1TiB"),
        ("offload", "host:1GiB,disk"), ("offload", "host:1GiB,file:/no/such:1GiB"),
        ("offload", "host:0,file:/tmp:1GiB"), ("trace_steps", "0"), ("trace_steps", "3:2"),
        ("trace_steps", "x"), ("trace_steps", "3"))),
    *({"budget": "1GiB", "device": "cuda", "policy": "none", key: text} for key, text in (
        ("chaos", "op"), ("trace", "x.jsonl"), ("offload", "host:1GiB"))),
])
def test_wrong_options_get_the_same_message(library, given):
    with pytest.raises(_settings.SettingsError) as expected:
        _settings.resolve(given, {})
    assert enable(library, **given) == (WRONG_SETTING, str(expected.value))


@pytest.mark.parametrize("name, text", [
    ("BUDGIT", "1GiB"), ("budget", "1GiB"), ("Policy", "lru"), ("budgit", "1GiB"),
    ("QUIET", "perhaps"), ("PAGE", "2%"), ("PAGE", "x"), ("HANDLE", "0"),
    ("LIMIT_DEPTH", "0"), ("LIMIT_AGE", "-1"), ("LIMIT_BOOKKEEPING", "1"), ("ROOM", "windos"),
    ("ROOM", "moves"), ("ALLOCATOR", "native"), ("ALLOCATOR", "arenas"), ("PLANNING", "never"),
    ("POISON", "2"), ("TOP", "x"), ("REQUIRED", "x"),
])
def test_wrong_variables_get_the_same_message(library, monkeypatch, name, text):
    monkeypatch.setenv(f"TIDEPOOL_{name}", text)
    given = {"budget": "1GiB"}
    environ = {f"TIDEPOOL_{name}": text}
    try:
        _settings.resolve(given, environ)
        assert enable(library, **given)[0] == CANNOT_ATTACH
    except _settings.SettingsError as error:
        assert enable(library, **given) == (WRONG_SETTING, str(error))


@pytest.mark.parametrize("given", [
    {"budget": "1GiB"}, {"budget": "auto"}, {"budget": "50%"}, {"chaos": "op"}, {"trace": "x"},
    {"budget": "1 GB", "policy": "need1", "chaos": "bounded:7", "trace": "x",
     "trace_steps": "2:"},
    {"budget": "1GiB", "offload": "file:/tmp:1TiB", "chaos": "offload:3"},
    {"budget": "1GiB", "offload": "none"},
])
def test_settings_that_are_right_need_libtorch(library, given):
    assert enable(library, **given) == (CANNOT_ATTACH, "this program is not linked with LibTorch")


@pytest.mark.parametrize("key", _catalog.RESERVED)
def test_what_processes_tell_each_other_is_no_misspelt_setting(library, monkeypatch, key):
    monkeypatch.setenv(f"TIDEPOOL_{key.upper()}", "1")
    assert enable(library, budget="1GiB")[0] == CANNOT_ATTACH


def test_options_of_an_older_program_are_shorter(library):
    options = Options(size=2 * ctypes.sizeof(ctypes.c_size_t), budget=b"1GiB", policy=b"no such")
    assert library.tidepool_enable(ctypes.byref(options)) == CANNOT_ATTACH


@pytest.mark.parametrize("key", [each.key for each in _catalog.SETTINGS if each.python_only])
def test_what_only_python_jobs_have_is_refused(library, monkeypatch, key):
    monkeypatch.setenv(f"TIDEPOOL_{key.upper()}", "mylib::op")
    code, message = enable(library, budget="1GiB")
    assert code == WRONG_SETTING and "only in a Python job" in message


def test_without_being_attached(library):
    assert library.tidepool_set_budget(b"1GiB") == NOT_ATTACHED
    assert library.tidepool_read_stats(None, None) == NOT_ATTACHED
    assert library.tidepool_stats_json(None, 0) == 0
    kept = ctypes.c_void_p(1)
    assert library.tidepool_keep(None, ctypes.byref(kept)) == 0 and not kept.value
    library.tidepool_release(None, None)
    library.tidepool_step()
