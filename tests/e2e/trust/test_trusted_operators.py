"""Custom operators: what a check finds of them, and that a job may rely on it."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness
import pytest

LIES_JOB = str(harness.HERE / "trust/lies_job.py")
OTHER = "run again on the same operands, it"
REACHED = "it changes something that it reaches by its names"
# What gives each operator that lies away, and what does if nothing is known of its Python code.
FOUND = {
    "hidden_write": ("it writes an operand", "it writes an operand"),
    "hidden_state": (REACHED, f"{OTHER} gives something else"),
    "one_in_a_thousand": (REACHED, f"{OTHER} now and then gives something else"),
    "late_write": (REACHED, "it writes an operand or a result after it has returned"),
    "alias": ("its results share memory", "its results share memory"),
    "hidden_random": (OTHER, OTHER),
    "reads_a_global": ("", None),
    "reads_a_tensor": ("it reads a tensor that is no operand", "it reads a tensor"),
    "appends_to_a_global": (REACHED, None),
    "writes_a_file": (REACHED, None),
    "keeps_memory": (REACHED, "it keeps memory"),
    "shares_a_buffer": (REACHED, "it reads a tensor that is no operand"),
    "waits_for_a_thread": (REACHED, "other threads of Python work while it runs"),
    "changes_a_switch": ("it changes a switch of PyTorch's", "it changes a switch"),
    "depends_on_the_address": (OTHER, OTHER),
}
# Those that would wait for other threads, or compute something else in each process.
NOT_FORCED = ("late_write", "waits_for_a_thread", "depends_on_the_address")


def lies(*arguments: str, front: tuple[str, ...] = ()) -> dict:
    done = harness.run([*front, sys.executable, LIES_JOB, *arguments])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FORCED = [name for name in FOUND if name not in NOT_FORCED]


@pytest.fixture(scope="module")
def begun(tmp_path_factory, extension):
    """Begin all that takes long and needs nothing else, each as a future."""
    folder = tmp_path_factory.mktemp("trust")
    for name in ("honest_job.py", "honest_operators.py"):
        shutil.copy(harness.HERE / "trust" / name, folder)
    verify = [sys.executable, "-m", "tidepool", "verify", "--device", "cpu", "--budget", "1GiB",
              "--chaos=random:1", "--trust", str(folder / "trust.json"), "--",
              *job(folder, extension)]
    replay = ",".join(f"lying::{name}" for name in FORCED)
    front = tuple(harness.attached("1GiB", "--chaos=op", "--replay", replay))
    with ThreadPoolExecutor(2) as pool:
        yield {"folder": folder, "verify": pool.submit(harness.run, verify),
               "check": pool.submit(lies, "check"), "plain": pool.submit(lies, "run", *FORCED),
               "trusted": pool.submit(lies, "run", *FORCED, front=front)}


def test_a_check_refuses_operators_that_lie(begun):
    found = begun["check"].result()
    seeing, blind = found["seeing"], found["blind"]
    assert seeing.keys() == blind.keys() == FOUND.keys()
    for name, (reason, blind_reason) in FOUND.items():
        assert seeing[name].startswith(reason), name
        assert bool(seeing[name]) == bool(reason), name
        assert blind_reason is None or blind[name].startswith(blind_reason), name


def test_lies_that_are_trusted_end_in_errors(begun):
    plain, trusted = begun["plain"].result(), begun["trusted"].result()
    failed = {name for name in FORCED if trusted[name].startswith("error")}
    assert {name: trusted[name] for name in FORCED if name not in failed} == \
        {name: plain[name] for name in FORCED if name not in failed}
    assert failed >= {"hidden_write", "hidden_state", "hidden_random", "reads_a_global",
                      "reads_a_tensor", "shares_a_buffer"}
    for name in ("hidden_state", "hidden_random", "reads_a_global"):
        assert f"what lying::{name} had made came back with other bits" in trusted[name]


@pytest.fixture(scope="module")
def checked(begun) -> Path:
    """Return a folder with a job, `trust.json` that `verify` wrote for it, and what that said."""
    done = begun["verify"].result()
    assert done.returncode == 0, done.stdout + done.stderr
    (begun["folder"] / "report").write_text(done.stdout)
    (begun["folder"] / "printed").write_text(done.stderr)
    return begun["folder"]


@pytest.fixture(scope="module")
def extension() -> Path:
    import torch

    major, minor = torch.__version__.split(".")[:2]
    name = f"libcases_extension_torch_{major}_{minor}.so"
    return harness.HERE.parents[1] / "build" / "dev" / "tests" / "cases" / name


def job(folder: Path, extension: Path) -> list[str]:
    return [sys.executable, str(folder / "honest_job.py"), "--steps", "2", "--layers", "2",
            "--extension", str(extension)]


def run(folder: Path, extension: Path,
        *options: str) -> tuple[subprocess.CompletedProcess, dict]:
    """Run a job with Tidepool; return what it printed, and its statistics."""
    stats = folder / "stats.json"
    done = harness.run([*harness.attached("1GiB", *options, stats=stats), *job(folder, extension)])
    return done, json.loads(stats.read_text()) if done.returncode == 0 else {}


NAMES = ("honest::scaled_norm", "honest::scaled_norm_backward", "honest::squash",
         "tidepool_extension::twice")


def test_honest_operators_are_trusted_and_replayed(checked, extension):
    report = (checked / "report").read_text()
    for name in NAMES:
        assert f"\n  {name}: trusted after " in report
    done, said = run(checked, extension, "--chaos=op", "--trust", str(checked / "trust.json"))
    assert done.stdout in (checked / "printed").read_text()  # by the plain run
    assert said["operators"] == dict.fromkeys(NAMES, "trusted")
    assert said["devices"]["cpu"]["contents_compared"] > 0
    for name in NAMES:
        assert said["devices"]["cpu"]["chaos_coverage"][name]["restored"] > 0, name


def test_what_is_not_as_checked_is_kept(checked, extension, tmp_path):
    trust = checked / "trust.json"
    changed = shutil.copytree(checked, tmp_path / "changed")
    with open(changed / "honest_operators.py", "a", encoding="utf-8") as source:
        source.write("# another line\n")
    done, said = run(changed, extension, "--trust", str(trust), "--keep",
                     "tidepool_extension::twice", "--replay", "honest::scaled_norm")
    assert done.stderr.count("honest::squash is kept: honest_operators.py is not what was") == 1
    assert said["operators"] == {
        "honest::scaled_norm": "trusted", "tidepool_extension::twice": "kept: keep",
        **dict.fromkeys(
            NAMES[1:3], "kept: honest_operators.py is not what was checked (honest_operators.py)")}
    damaged = trust.read_text().replace("honest::squash", "honest::other")
    (changed / "trust.json").write_text(damaged)
    done, _ = run(changed, extension, "--trust", str(changed / "trust.json"))
    assert done.returncode == 2
    assert "is damaged" in done.stderr


IN_PYTHON = """
import torch
from torch.overrides import TorchFunctionMode

torch.manual_seed(0)
torch.set_num_threads(1)
library = torch.library.Library("mylib", "DEF")
library.define("raised(Tensor x) -> Tensor")
library.impl("raised", lambda x: torch.mul(x, 2) + torch.ones(3).sum(), "CPU")
library.define("halves(Tensor x) -> Tensor?[]")
library.impl("halves", lambda x: [x[:32] * 2, None, x[32:] * 3], "CPU")


class Rounding(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result.half().float() if function in (torch.mul, torch.ones) else result


x = torch.randn(64).requires_grad_()
made = torch.ops.mylib.raised(x.detach())


@torch.compile(backend="eager")
def look(x):
    y = x.sin()
    torch._dynamo.graph_break()
    seen.append(made.tolist())  # about to be traced
    return y.cos()


seen = []
look(x)
with Rounding():
    seen.append(made.tolist())
    in_mode = torch.ops.mylib.raised(x.detach())
print(seen[0] == seen[1] == made.tolist(), made.tolist(), in_mode.tolist())
print([half is not None and half.tolist() for half in torch.ops.mylib.halves(made)])
"""


def test_a_replayed_kernel_in_python_is_seen_by_nothing_of_the_jobs(tmp_path):
    plain = harness.run([sys.executable, "-c", IN_PYTHON])
    stats = tmp_path / "stats.json"
    front = harness.attached("1GiB", "--chaos=op", "--replay", "mylib::raised,mylib::halves",
                             stats=stats)
    done = harness.run([*front, sys.executable, "-c", IN_PYTHON])
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    assert done.stdout.startswith("True")
    coverage = json.loads(stats.read_text())["devices"]["cpu"]["chaos_coverage"]
    assert coverage["mylib::raised"]["restored"] > 0
    assert "mylib::halves" not in coverage  # nothing finds tensors in such a list again


def test_a_name_that_no_operator_of_the_job_has_is_said():
    front = harness.attached("1GiB", "--replay", "nosuch::op")
    done = harness.run([*front, sys.executable, "-c", "import torch; torch.ones(1)"])
    assert done.returncode == 0
    assert "nosuch::op was to be replayed or kept" in done.stderr
