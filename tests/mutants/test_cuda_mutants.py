"""Mutants of what only CUDA has are noticed on the stand-in device by what a small job sees.

Only with TIDEPOOL_FULL=1, on the newest PyTorch, after a build of the mutants (./dev).
"""

import functools
import json
import subprocess
import sys

import laboratory
import pytest
import standin
from mutant_table import CHAOS, OFFLOADED, ON_CUDA, ROOT, TIGHT, WRONG
from test_mutants import pytestmark, tell  # noqa: F401

JOBS = ROOT / "tests" / "torch_cuda"
GPT = "gpt"
OFFLOAD = {"TIDEPOOL_OFFLOAD": "host:1GiB", "CUBLAS_WORKSPACE_CONFIG": ":16:8"}
AMPLE = "256MiB"


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> str:
    return str(laboratory.mutants_package(tmp_path_factory.mktemp("package")))


def run(package: str, mutant: str, *job: str, budget: str = AMPLE, devices: int = 1,
        **environ: str) -> tuple[dict | None, str]:
    """Run a job under the mutants build; return what it printed, None if it failed, and errors."""
    base = laboratory.environment(PYTHONPATH=package, TIDEPOOL_MUTANT=mutant, **environ)
    environ = standin.environment(base=base, devices=devices, granularity="64KiB")
    command = [sys.executable, "-m", "tidepool", "run", "--device", "cuda", "--budget", budget,
               "--", sys.executable, str(JOBS / job[0]), *job[1:]]
    done = subprocess.run(command, env=environ, text=True, capture_output=True,
                          timeout=laboratory.JOB_SECONDS)
    errors = f"exit status {done.returncode}: {done.stderr}"
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None, errors


def require_mutant(mutant: str, errors: str) -> None:
    assert f"mutant: {mutant}" in errors, f"not the mutants build: {errors}"


@pytest.mark.parametrize("name", sorted(ON_CUDA))
def test_mutant_is_noticed_on_cuda(name, package, summary):
    case = ON_CUDA[name]
    sound, errors = run(package, "", "remat_jobs.py", case, devices=2)
    assert sound, errors
    seen, errors = run(package, name, "remat_jobs.py", case, devices=2)
    require_mutant(name, errors)
    if seen is None:
        how = errors.splitlines()[0]
    else:
        how = next((f"{key}: {seen[case][key]} instead of {value}"
                    for key, value in sound[case].items() if seen[case][key] != value), None)
    tell(summary, name, how and f"case {case}: {how}")
    assert how, f"{WRONG[name]}: survived"


@functools.cache
def fixed_bytes(package: str, *job: str) -> int:
    """Return what lives all the time in a job with a GPT."""
    ample, errors = run(package, "", *job, GPT)
    assert ample, errors
    return ample[GPT]["fixed"]


@functools.cache
def offloading(package: str, how: str, mutant: str) -> tuple[dict | None, str]:
    """Train a GPT that offloads; how: see OFFLOADED."""
    job = ("value_jobs.py", "--watch")
    if how == CHAOS:
        return run(package, mutant, *job, "--steps", "2", "--size", "chaos", GPT,
                   TIDEPOOL_CHAOS="offload:1", **OFFLOAD)
    job += ("--steps", "5")  # so that some are foreseen
    return run(package, mutant, *job, GPT, budget=str(fixed_bytes(package, *job)), **OFFLOAD)


@pytest.mark.parametrize("how", (CHAOS, TIGHT))
def test_copies_are_sound_without_a_mutant(how, package):
    found, errors = offloading(package, how, "")
    assert found, errors
    assert found["races"] == found["misuses"] == []


@pytest.mark.parametrize("name", sorted(OFFLOADED))
def test_mutant_of_copies_is_noticed(name, package, summary):
    sound, errors = offloading(package, OFFLOADED[name], "")
    assert sound, errors
    seen, errors = offloading(package, OFFLOADED[name], name)
    require_mutant(name, errors)
    if seen is None:
        how = errors.splitlines()[0]
    elif seen["races"] or seen["misuses"]:
        how = f"{len(seen['races'])} races, {len(seen['misuses'])} misuses"
    else:
        how = "other values" if seen[GPT]["steps"] != sound[GPT]["steps"] else None
    tell(summary, name, how and f"{OFFLOADED[name]}: {how}")
    assert how, f"{WRONG[name]}: survived"
