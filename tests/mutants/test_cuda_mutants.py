"""Mutants of what only CUDA has are noticed on the stand-in device by what a small job sees.

Only with TIDEPOOL_FULL=1, on the newest PyTorch, after a build of the mutants (./dev).
"""

import json
import subprocess
import sys

import laboratory
import pytest
import standin
from mutant_table import ON_CUDA, ROOT, WRONG
from test_mutants import pytestmark, tell  # noqa: F401

JOB = ROOT / "tests" / "torch_cuda" / "remat_jobs.py"


def run(case: str, package: str, mutant: str) -> tuple[int, dict, str]:
    """Run a case under the mutants build; return exit status, what it saw, standard error."""
    base = laboratory.environment(PYTHONPATH=package, TIDEPOOL_MUTANT=mutant)
    environ = standin.environment(base=base, devices=2, granularity="64KiB")
    command = [sys.executable, "-m", "tidepool", "run", "--device", "cuda", "--budget", "256MiB",
               "--", sys.executable, str(JOB), case]
    done = subprocess.run(command, env=environ, text=True, capture_output=True,
                          timeout=laboratory.JOB_SECONDS)
    seen = json.loads(done.stdout.splitlines()[-1])[case] if done.returncode == 0 else {}
    return done.returncode, seen, done.stderr


@pytest.mark.parametrize("name", sorted(ON_CUDA))
def test_mutant_is_noticed_on_cuda(name, tmp_path, summary):
    package = str(laboratory.mutants_package(tmp_path))
    status, sound, errors = run(ON_CUDA[name], package, "")
    assert status == 0, errors
    status, seen, errors = run(ON_CUDA[name], package, name)
    assert f"mutant: {name}" in errors, f"not the mutants build: {errors}"
    how = f"exit status {status}" if status else next(
        (f"{key}: {seen[key]} instead of {sound[key]}" for key in sound if seen[key] != sound[key]),
        None)
    tell(summary, name, how and f"case {ON_CUDA[name]}: {how}")
    assert how, f"{WRONG[name]}: survived"
