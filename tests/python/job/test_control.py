"""What a job says about its memory while it runs reaches the plugin, and errors come back."""

import os
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import tidepool
from tidepool.job import _control

ATTACHED = """\
import sys, tidepool
tidepool.enable(budget="1GiB", device="cpu")
import torch
said = lambda: open(sys.argv[1]).read().split("attach")[-1].splitlines()[1:]
"""


def run(installation, tmp_path, code):
    path = str(tmp_path / "log")
    return installation.run(sys.executable, "-c", ATTACHED + code, path, check=0,
                            FAKE_PLUGIN_LOG=path, PYTHONPATH=f"{installation.package.parent}:"
                            f"{installation.environ(True, {})['PYTHONPATH']}").stdout


def test_a_budget_is_set_and_in_a_block_set_back(installation, tmp_path):
    code = """
tidepool.set_budget("2KiB")
with tidepool.budget(4096):
    print(said())
    try:
        with tidepool.budget("10B"):
            pass
    except torch.OutOfMemoryError as error:
        print(error)
tidepool.set_budget(None)
print(said())
for wrong in ("8gib", 0):
    try:
        tidepool.set_budget(wrong)
    except tidepool.SettingsError as error:
        print(error)
"""
    out = run(installation, tmp_path, code).splitlines()
    assert out[0] == "['limit 2048', 'limit 4096']"
    assert "cannot be evicted takes more" in out[1]
    assert out[2].endswith(
        f"'limit 4096', 'limit 10', 'limit 4096', 'limit 2048', 'limit {2**63}']")
    assert "did you mean GiB" in out[3] and "budget '0': expected more" in out[4]


def test_budgets_that_threads_set_at_once_are_remembered_as_the_plugin_has_them(monkeypatch):
    in_force, remembered = [], []

    class Limit(_control.Limit):
        def __setattr__(self, name: str, value: int) -> None:
            remembered.append(value)

    def set_limit(size: int) -> None:
        in_force.append(size)
        time.sleep(1e-4 * (size % 3))  # so that another thread comes between, if it can

    plugin = SimpleNamespace(statistics=lambda: {"cpu": {"budget_bytes": 1 << 30}},
                             set_limit=set_limit)
    job = SimpleNamespace(plugin=plugin, settings=SimpleNamespace(device="cpu"), limits=[Limit()],
                          limit_lock=threading.Lock())
    remembered.clear()
    monkeypatch.setattr(_control, "_attached_job", lambda: job)

    def change(first: int) -> None:
        for size in range(first, first + 50):
            tidepool.set_budget(size)

    threads = [threading.Thread(target=change, args=(1000 * k,)) for k in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(remembered) == 100 and remembered == in_force


def test_of_blocks_that_overlap_the_one_that_began_last_holds(monkeypatch):
    in_force = []
    plugin = SimpleNamespace(statistics=lambda: {"cpu": {"budget_bytes": 1 << 30}},
                             set_limit=in_force.append)
    job = SimpleNamespace(plugin=plugin, settings=SimpleNamespace(device="cpu"), pid=os.getpid(),
                          limits=[_control.Limit()], limit_lock=threading.Lock())
    monkeypatch.setattr(_control, "_attached_job", lambda: job)
    first, second = tidepool.budget(1000), tidepool.budget(2000)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert in_force[-1] == 2000
    second.__exit__(None, None, None)
    assert in_force[-1] == 2**63 and len(job.limits) == 1


def test_a_budget_beyond_all_memory_is_none(monkeypatch):
    in_force = []
    plugin = SimpleNamespace(statistics=lambda: {"cpu": {"budget_bytes": 1 << 30}},
                             set_limit=in_force.append)
    job = SimpleNamespace(plugin=plugin, settings=SimpleNamespace(device="cpu"),
                          limits=[_control.Limit()], limit_lock=threading.Lock())
    monkeypatch.setattr(_control, "_attached_job", lambda: job)
    assert tidepool.set_budget(2**64 + 4096) == 1 << 30
    assert in_force == [2**63]


def test_what_is_no_tensor_and_no_function_is_refused():
    with pytest.raises(TypeError, match="expected tensors, got list"):
        tidepool.keep([])
    with pytest.raises(TypeError, match="expected a function"):
        tidepool.on_pressure("not callable")


def test_nothing_is_evicted_in_a_block_also_if_it_raises(installation, tmp_path):
    code = """
try:
    with tidepool.no_eviction():
        raise KeyError
except KeyError:
    print([line.split()[0] for line in said()])
"""
    assert run(installation, tmp_path, code) == "['begin_keeping', 'end_keeping']\n"


def test_without_tidepool_only_a_budget_is_refused():
    with tidepool.no_eviction(), tidepool.keep() as kept:
        pass
    kept.release()
    with pytest.raises(tidepool.AttachError, match="not attached"):
        tidepool.set_budget("1GiB")
    with pytest.raises(tidepool.AttachError, match="not attached"), tidepool.budget("1GiB"):
        pass


def test_in_a_plain_run_of_verify_what_is_asked_for_gets_an_answer(monkeypatch):
    monkeypatch.setattr(_control, "enabled_in_plain_run", False)
    monkeypatch.setenv("TIDEPOOL_VERIFY", "{}")
    tidepool.enable(budget="1GiB")
    with tidepool.budget("2KiB") as allowed:
        assert allowed == 2048
    with pytest.raises(tidepool.SettingsError):
        tidepool.set_budget("8gib")
    assert tidepool.metrics()["tidepool/evictions"] == 0
    assert tidepool.metrics()["tidepool/reserved_peak_bytes"] == 0
    assert tidepool.stats()["devices"]["cpu"]["evictions"] == 0


def test_a_forked_child_is_told_that_it_has_no_budget(installation, tmp_path):
    code = """
import os
if os.fork():
    os.wait()
else:
    for ask in (lambda: tidepool.set_budget("1KiB"),
                lambda: tidepool.enable(budget="1GiB", device="cpu")):
        try:
            ask()
        except tidepool.AttachError as error:
            print(error, flush=True)
    os._exit(0)
"""
    assert run(installation, tmp_path, code).count("a forked child has no budget of its own") == 2
