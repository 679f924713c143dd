"""The preload shim: inert unless asked for, settings moved, every Python reached, threads on."""

import subprocess
import sys

import pytest

SHOW = ("import os, sys; print({k: v for k, v in os.environ.items() "
        "if k.startswith(('PYTORCH_', 'TIDEPOOL_'))})")


@pytest.mark.parametrize("before, after", [
    ({"PYTORCH_CUDA_ALLOC_CONF": "backend:tidepool,tidepool_budget:8GiB"},
     {"TIDEPOOL_BACKEND": "tidepool", "TIDEPOOL_BUDGET": "8GiB"}),
    ({"PYTORCH_ALLOC_CONF": "max_split_size_mb:20,a:[256:1,512:2], tidepool_chaos : random:7 "},
     {"PYTORCH_ALLOC_CONF": "max_split_size_mb:20,a:[256:1,512:2]", "TIDEPOOL_CHAOS": "random:7"}),
    ({"PYTORCH_ALLOC_CONF": "tidepool_budget:1GiB", "TIDEPOOL_BUDGET": "2GiB"},
     {"TIDEPOOL_BUDGET": "2GiB"}),
    ({"PYTORCH_ALLOC_CONF": "tidepool_budget:1GiB",
      "PYTORCH_CUDA_ALLOC_CONF": "tidepool_budget:2GiB,tidepool_limit_depth:9"},
     {"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_LIMIT_DEPTH": "9"}),
    ({"PYTORCH_CUDA_ALLOC_CONF": "backend:native,,x:1,"},
     {"PYTORCH_CUDA_ALLOC_CONF": "backend:native,,x:1,"}),
    ({"PYTORCH_CUDA_ALLOC_CONF": "backend:tidepools,x:]["},
     {"PYTORCH_CUDA_ALLOC_CONF": "backend:tidepools,x:]["}),
])
def test_our_keys_leave_pytorchs_settings(installation, before, after):
    done = installation.preloaded(sys.executable, "-c", SHOW, check=0, **before)
    assert done.stdout == f"{after}\n" or eval(done.stdout) == after
    assert done.stderr == ""


def test_inert_without_a_setting(installation):
    job = "import sys, torch; print('tidepool' in sys.modules, len(sys.meta_path))"
    plain = installation.run(sys.executable, "-c", job, check=0)
    done = installation.preloaded(sys.executable, "-c", job, check=0)
    assert done.stdout == plain.stdout and done.stdout.startswith("False")
    assert done.stderr == ""


@pytest.mark.parametrize("statement", [
    "import torch", "from torch import Tensor",
    "import importlib; importlib.import_module('torch')",
    "__import__('torch')", "import torch; import torch",
])
@pytest.mark.parametrize("flags", [[], ["-I"], ["-E"], ["-S"], ["-I", "-S"]])
def test_attaches_whatever_the_pythons_flags(installation, flags, statement):
    folder = installation.environ(True, {})["PYTHONPATH"]
    job = (f"import sys; sys.path.insert(0, {folder!r}); {statement}; "
           "print([f for f in sys.meta_path if 'Watcher' in type(f).__name__])")
    plain = installation.run(sys.executable, *flags, "-c", job, check=0)
    done = installation.preloaded(sys.executable, *flags, "-c", job, check=0,
                                  TIDEPOOL_BUDGET="1GiB")
    assert done.stdout == plain.stdout  # the finder is gone again
    assert [line.split(",")[0] for line in done.stderr.splitlines()] == [
        "tidepool: attached", "tidepool: peak 1536 MiB of 1 GiB"]


def test_another_interpreter_takes_nothing_away(installation):
    """The main one comes to `importlib`, and so to our finder, after that which has no PyTorch."""
    job = ("try:\n    import _interpreters as interpreters\n"
           "except ImportError:\n    import _xxsubinterpreters as interpreters\n"
           "import sys; assert 'importlib' not in sys.modules\n"
           "other = interpreters.create()\n"
           "interpreters.run_string(other, 'import importlib, json')\n"
           "interpreters.destroy(other)\n"
           "import torch")
    done = installation.preloaded(sys.executable, "-S", "-c", job, check=0,
                                  TIDEPOOL_BUDGET="1GiB")
    assert done.stderr.count("attached") == 1


def test_a_failing_import_of_torch_stays_what_it_is_and_may_be_retried(installation):
    job = ("import os\ntry:\n    import torch\nexcept ImportError as error:\n    print(error)\n"
           "del os.environ['FAKE_TORCH_FAILS']\nimport torch")
    done = installation.preloaded(sys.executable, "-c", job, check=0, TIDEPOOL_BUDGET="1GiB",
                                  FAKE_TORCH_FAILS="1")
    assert done.stdout == "this torch is broken\n"
    assert done.stderr.count("attached") == 1


IMPOSSIBLE = [
    ({"TIDEPOOL_BUDGET": "8gib"}, "TIDEPOOL_BUDGET '8gib': unknown unit"),
    ({"TIDEPOOL_BUDGET": "1GiB", "FAKE_TORCH_VERSION": "9.9.1"}, "plugins for: 9.1"),
    ({"TIDEPOOL_BUDGET": "1GiB", "FAKE_PLUGIN_REFUSES": "no\nroom"}, "no room"),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_STATS": "/nowhere/x.json"}, "/nowhere/x.json"),
    ({"TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_DEVICE": "cuda"}, "built without CUDA"),
]


def autoloading(installation):
    """Return what makes the torch of these tests call the entry point, as an installed package's.
    """
    paths = installation.environ(True, {})["PYTHONPATH"]
    return {"PYTHONPATH": f"{paths}:{installation.package.parent}", "FAKE_TORCH_AUTOLOADS": "1"}


@pytest.mark.parametrize("environ, line", IMPOSSIBLE)
@pytest.mark.parametrize("autoload", [False, True])
def test_what_cannot_work_ends_the_process_where_it_must(installation, environ, line, autoload):
    environ = {**environ, "TIDEPOOL_REQUIRED": "1",
               **(autoloading(installation) if autoload else {})}
    # Neither a job that may do without PyTorch nor another thread goes on.
    job = ("import threading, time; print('begins')\n"
           "def work():\n"
           "    try:\n        import torch\n"
           "    except BaseException:\n        pass\n"
           "thread = threading.Thread(target=work); thread.start(); thread.join(); print('ran')")
    done = installation.preloaded(sys.executable, "-c", job, check=2, **environ)
    assert done.stdout == "begins\n"
    assert len(done.stderr.splitlines()) == 1
    assert "this process ends" in done.stderr and line in done.stderr


@pytest.mark.parametrize("job", ["print('ran')", "import importlib, json; print('ran')"])
def test_a_job_without_pytorch_needs_no_tidepool(installation, job):
    done = installation.preloaded(sys.executable, "-c", job, check=0, TIDEPOOL_BUDGET="8gib",
                                  TIDEPOOL_REQUIRED="1")
    assert (done.stdout, done.stderr) == ("ran\n", "")


def test_without_a_budget_nothing_is_required(installation):
    done = installation.preloaded(sys.executable, "-c", "import torch; print('ran')", check=0,
                                  TIDEPOOL_REQUIRED="1")
    assert (done.stdout, done.stderr) == ("ran\n", "")


@pytest.mark.parametrize("spoil", [
    "sys.modules['tidepool._autoload'] = None",  # the package cannot be imported
    "sys.meta_path = tuple(sys.meta_path); import importlib",  # nothing can watch
])
def test_a_watcher_that_fails_is_no_way_around(installation, spoil):
    def run(required):
        return installation.preloaded(
            sys.executable, "-S", "-c", f"import sys; {spoil}; import torch; print('ran')",
            TIDEPOOL_BUDGET="1GiB", TIDEPOOL_REQUIRED=required)

    done = run("1")
    assert (done.returncode, done.stdout) == (2, "") and "cannot be kept" in done.stderr
    done = run("0")
    assert (done.returncode, done.stdout) == (0, "ran\n") and "without Tidepool" in done.stderr


@pytest.mark.parametrize("environ, line", IMPOSSIBLE)
@pytest.mark.parametrize("autoload, required", [(False, ""), (True, "0"), (False, "Off")])
def test_what_cannot_work_costs_one_line(installation, environ, line, autoload, required):
    environ = {**environ, "TIDEPOOL_REQUIRED": required,
               **(autoloading(installation) if autoload else {})}
    done = installation.preloaded(sys.executable, "-c", "import torch; print('ran')", check=0,
                                  **environ)
    assert done.stdout == "ran\n"
    assert len(done.stderr.splitlines()) == 1 and line in done.stderr
    assert "running without Tidepool" in done.stderr


@pytest.mark.parametrize("allocator", ["default", "malloc", "pymalloc", "debug", "malloc_debug",
                                       "pymalloc_debug", "-X dev", "PYTHONDEVMODE"])
def test_every_allocator_of_python_is_left_to_free_what_it_gave(installation, allocator):
    flags = ["-X", "dev"] if allocator == "-X dev" else []
    environ = {"PYTHONDEVMODE": "1"} if allocator == "PYTHONDEVMODE" else {}
    if not flags and not environ:
        environ = {"PYTHONMALLOC": allocator}
    for job, lines in (("pass", 0), ("import torch", 2)):
        done = installation.preloaded(sys.executable, *flags, "-c", job, check=0,
                                      TIDEPOOL_BUDGET="1GiB", **environ)
        assert len(done.stderr.splitlines()) == lines, done.stderr


def test_other_programs_are_left_alone(installation):
    for command in (["true"], ["sh", "-c", "echo hi"], ["ls", "/"]):
        plain = installation.run(*command)
        done = installation.preloaded(*command, TIDEPOOL_BUDGET="1GiB")
        assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, "", plain.returncode)
    dynamic = subprocess.check_output(["readelf", "-d", str(installation.shim)], text=True)
    needed = [line for line in dynamic.splitlines() if "NEEDED" in line]
    assert needed and all(name in line for line in needed for name in ["lib", ".so"])
    assert not any("python" in line or "stdc++" in line for line in needed)


THREADS = """
import threading, torch, _thread, time, sys
from tidepool.job import _job
def started():
    return _job.current().plugin.statistics()["cpu"]["threads"]
done = threading.Event()
for _ in range(3):
    thread = threading.Thread(target=lambda: None)
    thread.start(); thread.join()
_thread.start_new_thread(done.set, ())
done.wait(); time.sleep(0.05)
on = started()
_job.current().plugin.thread(0)
thread = threading.Thread(target=lambda: None)
thread.start(); thread.join()
print(on, started())
"""


def test_every_new_thread_of_a_switched_on_thread_is_switched_on(installation):
    done = installation.preloaded(sys.executable, "-c", THREADS, check=0, TIDEPOOL_BUDGET="1GiB")
    assert done.stdout == "4 4\n"


def test_children_attach_too_and_the_first_process_reports_for_all(installation):
    job = ("import os, subprocess, sys, torch\n"
           "pid = os.fork()\n"
           "if pid == 0:\n    sys.exit(0)\n"
           "os.waitpid(pid, 0)\n"
           "subprocess.run([sys.executable, '-c', 'import torch'])\n")
    done = installation.preloaded(sys.executable, "-c", job, check=0, TIDEPOOL_BUDGET="1GiB")
    assert done.stderr.count("attached") == 1
    assert "2 processes, the highest peak and sums: peak 1536 MiB of 1 GiB, 6 " in done.stderr
