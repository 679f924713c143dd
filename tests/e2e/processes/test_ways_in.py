"""Every way into a job gives the same job: its output, its exit status, and a budget that holds."""

import json
import os
import sys

import harness
import pytest

JOB = harness.HERE / "small_job.py"
BUDGET = "14MiB"
BUDGET_BYTES = 14 * 2**20


@pytest.fixture(scope="module")
def plain():
    """The plain run, whose output is the same whatever it is told to end with."""
    done = harness.run([sys.executable, str(JOB)])
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def stats(tmp_path):
    return tmp_path / "stats.json"


def check(done, expected, stats, status: int = 0) -> dict:
    """The job's output is the plain job's, the status is right, and it ran within the budget."""
    assert done.returncode == status, done.stderr
    assert done.stdout == expected.stdout
    values = harness.read_stats(stats)
    assert values["evictions"] > 0
    assert values["reserved_peak_bytes"] <= values["budget_bytes"] == BUDGET_BYTES
    ours = [line for line in done.stderr.splitlines() if line.startswith("tidepool: ")]
    assert len(ours) == 2, done.stderr
    assert ours[0].startswith("tidepool: attached, budget 14 MiB on cpu")
    return values


@pytest.mark.torch_floor
def test_the_command_line(plain, stats):
    done = harness.run([*harness.attached(BUDGET, stats=stats), sys.executable, str(JOB)])
    check(done, plain, stats)
    assert len(done.stderr.splitlines()) == 2


def test_the_command_line_with_a_module(plain, stats):
    command = [part for part in harness.attached(BUDGET, stats=stats) if part != "--"]
    done = harness.run([*command, "-m", JOB.stem, "--exit", "0"],
                       PYTHONPATH=str(harness.HERE))
    check(done, plain, stats)


@pytest.mark.torch_floor
def test_variables_and_the_entry_point(plain, stats):
    done = harness.run([sys.executable, str(JOB)], TIDEPOOL_BUDGET=BUDGET,
                       TIDEPOOL_STATS=str(stats))
    check(done, plain, stats)


@pytest.mark.parametrize("variable", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_allocator_settings_and_the_shim(plain, stats, variable):
    from tidepool.cli import SHIM

    settings = f"backend:tidepool,tidepool_budget:{BUDGET},tidepool_stats:{stats}"
    # Without the entry point: it is the shim that attaches.
    done = harness.run([sys.executable, str(JOB)], LD_PRELOAD=str(SHIM),
                       TORCH_DEVICE_BACKEND_AUTOLOAD="0", **{variable: settings})
    check(done, plain, stats)


@pytest.mark.torch_floor
def test_a_call_in_the_script(plain, stats, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import tidepool\n"
                      f"tidepool.enable(budget={BUDGET!r}, stats={str(stats)!r})\n"
                      f"{JOB.read_text()}")
    done = harness.run([sys.executable, str(script)])
    check(done, plain, stats)


UNSEEN_THREAD = """
import ctypes, tidepool
tidepool.enable(budget="1GiB", chaos="op")
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
root = torch.empty(40)
root[:20], root[20:] = 2.0, 3.0
made = [root * k for k in range(5)]
before = tidepool.stats()["devices"]["cpu"]["evictions"]
assert before > 0

@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def work(_):
    root.add_(torch.ones(40))

libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
assert libc.pthread_create(ctypes.byref(thread), None, work, None) == 0
libc.pthread_join(thread, None)
print([m.sum().item() for m in made], root.sum().item())
assert tidepool.stats()["devices"]["cpu"]["evictions"] == before
"""


@pytest.mark.torch_floor
def test_a_thread_that_is_not_watched(tmp_path):
    """Without the preload library a thread that Python did not start is unseen: eviction ends."""
    script = tmp_path / "script.py"
    script.write_text(UNSEEN_THREAD)
    done = harness.run([sys.executable, str(script)])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0.0, 100.0, 200.0, 300.0, 400.0] 140.0\n"
    assert done.stderr.count("a thread that is not watched works on tensors") == 1


IMPORTED_ELSEWHERE = """
import threading
importer = threading.Thread(target=__import__, args=("torch",))
importer.start()
importer.join()
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
for _ in range(3):
    loss = model(torch.randn(32, 64)).square().mean()
    loss.backward()
print(loss.item())
import tidepool
print(tidepool.stats()["devices"].get("cpu", {}).get("evictions"))
"""


@pytest.mark.torch_floor
def test_another_thread_imports_pytorch(tmp_path):
    """The main one, which runs already, is watched all the same."""
    script = tmp_path / "script.py"
    script.write_text(IMPORTED_ELSEWHERE)
    plain = harness.run([sys.executable, str(script)])
    done = harness.run([*harness.attached(harness.AMPLE, "--chaos=op"), sys.executable,
                        str(script)])
    assert done.returncode == 0 and "not watched" not in done.stderr, done.stderr
    loss, evictions = done.stdout.splitlines()
    assert loss == plain.stdout.splitlines()[0] and int(evictions) > 0


def test_a_job_that_raises(plain, stats):
    done = harness.run([*harness.attached(BUDGET, stats=stats), sys.executable, str(JOB), "--fail"])
    check(done, plain, stats, 1)
    assert done.stderr.count("ValueError: the job's own error") == 1
    assert "Traceback" in done.stderr


def test_a_job_that_exits(plain, stats):
    done = harness.run([*harness.attached(BUDGET, stats=stats), sys.executable, str(JOB), "--exit",
                        "7"])
    check(done, plain, stats, 7)


def test_an_error_that_nobody_catches(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch\nprint('before')\ntorch.ones(1 << 26)\nprint('after')\n")
    done = harness.run([*harness.attached(BUDGET), sys.executable, str(script)])
    assert done.returncode == 1
    assert done.stdout == "before\n"
    assert "OutOfMemoryError: out of memory: 256.00 MiB" in done.stderr


@pytest.mark.parametrize("options", [
    pytest.param((BUDGET,), id="budget", marks=pytest.mark.torch_floor),
    pytest.param(("1GiB", "--chaos=op"), id="chaos")])
def test_data_loader_workers(plain, stats, options):
    """A forked worker reads the parent's tensors, also evicted ones, and has no budget."""
    done = harness.run([*harness.attached(*options, stats=stats), sys.executable, str(JOB),
                        "--workers", "2"])
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    assert len(done.stderr.splitlines()) == 2, done.stderr
    assert harness.read_stats(stats)["evictions"] > 0
    others = [name for name in os.listdir(stats.parent) if name != stats.name]
    assert not others, f"the workers left files: {others}"


@pytest.mark.torch_floor
def test_pytorchs_own_programs_are_left_alone(tmp_path):
    """One keeps tensors that are shared by name."""
    script = tmp_path / "script.py"
    script.write_text("import torch\n"
                      "torch.multiprocessing.set_sharing_strategy('file_system')\n"
                      "print(torch.ones(10).share_memory_().sum())\n")
    stats = tmp_path / "stats.json"
    done = harness.run([*harness.attached(BUDGET, stats=stats), sys.executable, str(script)])
    assert (done.returncode, done.stdout) == (0, "tensor(10.)\n"), done.stderr
    assert len(done.stderr.splitlines()) == 2, done.stderr
    assert list(tmp_path.glob("stats*.json")) == [stats]


def test_a_child_process_of_the_job_has_a_budget_of_its_own(plain, stats, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import subprocess, sys, torch\n"
                      "torch.ones(2)\n"
                      f"sys.exit(subprocess.run([sys.executable, {str(JOB)!r}]).returncode)\n")
    done = harness.run([*harness.attached(BUDGET, stats=stats), sys.executable, str(script)])
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    files = sorted(stats.parent.glob("stats*.json"))
    assert len(files) == 2
    evictions = [json.loads(file.read_text())["devices"]["cpu"]["evictions"] for file in files]
    assert min(evictions) == 0 < max(evictions)


@pytest.mark.torch_floor
def test_a_budget_that_cannot_be_kept_ends_the_process_that_imports_pytorch():
    job = (f"{sys.executable} -c 'print(1)' && ulimit -v 100000000 && "
           f"exec {sys.executable} -c 'import torch; print(2)'")
    done = harness.run([*harness.attached("1TiB"), "sh", "-c", job])
    assert (done.returncode, done.stdout) == (2, "1\n")
    assert len(done.stderr.splitlines()) == 1 and "cannot be reserved" in done.stderr


def test_a_budget_that_is_none_ends_the_command_before_it_begins():
    done = harness.run([*harness.attached("1KiB"), sys.executable, "-c", "print(1)"])
    assert (done.returncode, done.stdout) == (2, "")
    assert "budget '1KiB': expected a page at least (4 KiB)" in done.stderr


def test_an_attached_job_without_settings_is_left_alone(plain):
    from tidepool.cli import SHIM

    done = harness.run([sys.executable, str(JOB)], LD_PRELOAD=str(SHIM))
    assert (done.stdout, done.stderr) == (plain.stdout, "")
