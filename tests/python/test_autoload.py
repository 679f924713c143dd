"""The entry point and `enable()`: asked for or inert, once only, and who wins."""

import importlib.metadata
import importlib.util
import json
import sys

import pytest
from installation import HERE, build

ENABLE = "import tidepool; tidepool.enable(budget='1GiB'); import torch; print(tidepool.stats())"


@pytest.fixture
def importable(installation):
    """An environment in which both packages import and torch has our entry point."""
    paths = installation.environ(True, {})["PYTHONPATH"]
    return {"PYTHONPATH": f"{paths}:{installation.package.parent}", "FAKE_TORCH_AUTOLOADS": "1"}


def lines(done):
    return [line.split(",")[0] for line in done.stderr.splitlines()]


def test_inert_unless_asked_for(installation, importable):
    done = installation.run(sys.executable, "-c", "import torch", check=0, **importable)
    assert done.stdout == done.stderr == ""


def test_attaches_from_variables_and_from_conf_keys(installation, importable):
    for environ in ({"TIDEPOOL_BUDGET": "1GiB"},
                    {"PYTORCH_ALLOC_CONF": "backend:tidepool,tidepool_budget:1GiB"}):
        done = installation.run(sys.executable, "-c", "import os, torch; print(os.environ.get("
                                "'PYTORCH_ALLOC_CONF'))", check=0, **importable, **environ)
        assert done.stdout == "None\n"
        assert lines(done) == ["tidepool: attached", "tidepool: peak 1536 MiB of 1 GiB"]


def test_with_the_shim_it_attaches_once(installation, importable):
    done = installation.preloaded(sys.executable, "-c", "import torch", check=0,
                                  TIDEPOOL_BUDGET="1GiB", **importable)
    assert done.stderr.count("attached") == 1


def test_never_raises(installation, importable):
    job = ("import tidepool.settings._settings as s\n"
           "def broken(*_): raise KeyError('surprise')\n"
           "s.resolve = broken\nimport torch\nprint('ran')")
    done = installation.run(sys.executable, "-c", job, check=0, TIDEPOOL_BUDGET="1GiB",
                            **importable)
    assert done.stdout == "ran\n"
    assert done.stderr == "tidepool: running without Tidepool: KeyError: 'surprise'\n"


def test_a_package_without_libraries_costs_one_line(installation, importable):
    job = ("import pathlib, tidepool.job._plugin as p\n"
           "p.load.__defaults__ = (pathlib.Path('/x'), 'cpu')\n"
           "import torch")
    done = installation.run(sys.executable, "-c", job, check=0, TIDEPOOL_BUDGET="1GiB",
                            **importable)
    assert len(done.stderr.splitlines()) == 1 and "plugins for: none" in done.stderr


def test_enable_wins_over_the_environment(installation, importable):
    done = installation.run(sys.executable, "-c", ENABLE, check=0, TIDEPOOL_BUDGET="2GiB",
                            TIDEPOOL_POLICY="coop", **importable)
    assert "attached, budget 1 GiB on cpu, policy coop" in done.stderr
    assert "'evictions': 3" in done.stdout


def test_enable_refuses_what_it_cannot_do(installation, importable):
    def error(code, **environ):
        done = installation.run(sys.executable, "-c", code, check=1, **importable, **environ)
        return done.stderr.strip().splitlines()[-1]

    assert "_settings.SettingsError: budget" in error(ENABLE.replace("1GiB", "1gib"))
    assert "plugins for: 9.1" in error(ENABLE, FAKE_TORCH_VERSION="9.2")
    assert "no room" in error(ENABLE, FAKE_PLUGIN_REFUSES="no room")
    changed = "import torch, tidepool; tidepool.enable(budget='1GiB')"
    done = installation.run(sys.executable, "-c", changed, check=1, TIDEPOOL_BUDGET="2GiB",
                            **importable)
    assert "already attached with budget 2 GiB" in done.stderr
    assert "cannot change budget_bytes from 2147483648 to 1073741824" in done.stderr
    installation.run(sys.executable, "-c", changed, check=0, TIDEPOOL_BUDGET="1GiB", **importable)


def test_a_statistics_file_that_cannot_be_written_at_the_end_is_named(
        installation, importable, tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    code = (f"import shutil, tidepool; tidepool.enable(budget='1GiB', stats='{folder}/s.json'); "
            f"import torch; shutil.rmtree('{folder}')")
    done = installation.run(sys.executable, "-c", code, check=0, **importable)
    assert f"statistics file '{folder}/s.json' cannot be written: No such file" in done.stderr


def test_a_plugin_for_another_cuda_is_refused_with_advice(installation, importable, tmp_path):
    runtime = tmp_path / "libcudart.so.77"
    (tmp_path / "empty.c").write_text("")
    build(tmp_path / "empty.c", runtime, "-Wl,-soname,libcudart.so.77")
    build(HERE / "fake_plugin.c", tmp_path / "libtidepool_torch_cuda_9_1.so", "-Wl,--no-as-needed",
          str(runtime))
    runtime.unlink()
    code = ("import pathlib, torch; torch.version.cuda = '76.5'\n"
            "from tidepool.job import _plugin\n"
            f"_plugin.load(pathlib.Path({str(tmp_path)!r}), 'cuda')")
    done = installation.run(sys.executable, "-c", code, check=1, **importable)
    assert "libcudart.so.77" in done.stderr and "this PyTorch has CUDA 76.5: install" in done.stderr


def test_statistics_without_attaching(installation, importable):
    done = installation.run(sys.executable, "-c", "import json, tidepool; "
                            "print(json.dumps(tidepool.stats()))", check=0, **importable)
    assert json.loads(done.stdout)["devices"] == {}


def test_a_refused_attach_changes_nothing(installation, importable):
    job = ("import tidepool, torch; before = torch.Tensor.tolist\n"
           "try:\n    tidepool.enable(budget='1GiB', stats='/tmp')\n"
           "except tidepool.SettingsError:\n    pass\n"
           "try:\n    tidepool.enable(budget='1GiB')\n"
           "except tidepool.AttachError:\n    print(torch.Tensor.tolist is before)")
    done = installation.run(sys.executable, "-c", job, check=0, FAKE_PLUGIN_REFUSES="no",
                            **importable)
    assert done.stdout == "True\n"


def test_summary_also_after_an_exception(installation, importable, tmp_path):
    out = tmp_path / "out.json"
    done = installation.run(sys.executable, "-c", "import torch; 1 / 0", check=1,
                            TIDEPOOL_BUDGET="1GiB", TIDEPOOL_STATS=str(out), **importable)
    assert "ZeroDivisionError" in done.stderr and "peak 1536 MiB" in done.stderr
    assert json.loads(out.read_text())["state"] == "finished"


def test_quiet(installation, importable):
    done = installation.run(sys.executable, "-c", "import torch", check=0, TIDEPOOL_BUDGET="1GiB",
                            TIDEPOOL_QUIET="1", **importable)
    assert done.stderr == ""


def test_python_threads_follow_without_the_shim(installation, importable):
    job = ("import torch, threading, tidepool\n"
           "t = threading.Thread(target=lambda: None); t.start(); t.join()\n"
           "print(tidepool.stats()['devices']['cpu']['threads'])")
    done = installation.run(sys.executable, "-c", job, check=0, TIDEPOOL_BUDGET="1GiB",
                            **importable)
    assert done.stdout == "1\n"


REAL_JOB = """
import json, threading, torch, tidepool
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(2):
    weight.sum().backward()
    optimizer.step()
torch.ones(3).numpy()
thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
print(json.dumps(tidepool.stats()))
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_on_the_real_pytorch(installation):
    version = importlib.metadata.version("torch")
    major, minor = version.split(".")[:2]
    library = installation.package / "lib" / f"libtidepool_torch_{major}_{minor}.so"
    build(HERE / "fake_plugin.c", library, f"-DFAKE_VERSION=({major}<<8|{minor})")
    try:
        done = installation.preloaded(sys.executable, "-c", REAL_JOB, check=0, torch=False,
                                      TIDEPOOL_BUDGET="1GiB",
                                      # Another Tidepool may be installed in this environment.
                                      TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    finally:
        library.unlink()
    values = json.loads(done.stdout)
    assert values["torch"].startswith(f"{major}.{minor}.")
    counts = values["devices"]["cpu"]
    assert (counts["steps"], counts["escapes"], counts["threads"]) == (2, 1, 1)
    assert lines(done) == ["tidepool: attached", "tidepool: peak 1536 MiB of 1 GiB"]


def test_in_a_job_that_is_verified_the_job_attaches_nothing(installation, importable, tmp_path):
    done = installation.run(sys.executable, "-c", ENABLE, check=0,
                            TIDEPOOL_VERIFY=json.dumps({"folder": str(tmp_path)}), **importable)
    assert done.stdout.endswith("'devices': {}}\n")
    # This torch has too little to be recorded, which is no error of the job's.
    assert done.stderr.startswith("tidepool: running without a recorder: ")
    done = installation.run(sys.executable, "-c", "import torch", check=0, TIDEPOOL_VERIFY="{",
                            TIDEPOOL_BUDGET="1GiB", **importable)
    assert lines(done)[0] == "tidepool: attached" and "without a recorder" in done.stderr
