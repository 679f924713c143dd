"""Runs killer jobs plainly, with Tidepool, and with mutants of it; compares what they write."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mutant_table import ROOT, Killer

JOB = Path(__file__).with_name("killer_job.py")
MUTANTS = ROOT / "build" / "mutants"
MUTANTS_PACKAGE = MUTANTS / "source" / "bindings" / "python" / "tidepool"
MUTANTS_LIB = MUTANTS / "lib"
JOB_SECONDS = 300
ALONE = ("collective", "late_collective")  # forks


def environment(**extra: str) -> dict[str, str]:
    """Return this process's environment for one thread, plus `extra`."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **extra}


def settings(killer: Killer) -> dict[str, str]:
    """Return the variables that attach Tidepool to a killer's job."""
    chosen = {"budget": "4GiB", "device": "cpu", "poison": "1", "quiet": "1", **killer.settings}
    return {f"TIDEPOOL_{key.upper()}": value for key, value in chosen.items()}


def mutants_package(folder: Path) -> Path:
    """Make a copy of the Python package with the libraries of the mutants build.

    Returns:
        The folder to import `tidepool` from.
    """
    shutil.copytree(MUTANTS_PACKAGE, folder / "tidepool",
                    ignore=shutil.ignore_patterns("lib", "__pycache__"))
    (folder / "tidepool" / "lib").symlink_to(MUTANTS_LIB, target_is_directory=True)
    return folder


@dataclass
class Outcome:
    """How a job ended, and what it wrote: one entry per step."""

    status: int
    steps: list[dict]
    errors: str

    def of(self, model: str) -> "Outcome":
        """Return the part of a job of several models that is one model's."""
        return Outcome(self.status, [s for s in self.steps if s["model"] == model], self.errors)

    def difference(self, plain: "Outcome") -> str | None:
        """Return the first thing with other bits than in a plain run, None if there is none."""
        for own, other in zip(self.steps, plain.steps, strict=False):
            for key, digest in own["state"].items():
                if digest != other["state"].get(key):
                    return f"step {own['step']}, {key}"
        return None

    def replays(self) -> int:
        """Return the operators replayed up to the last step."""
        return self.steps[-1]["replays"] if self.steps else -1

    def explain(self) -> str:
        """Return how it ended and the end of what it said."""
        lines = self.errors.splitlines()[-6:]
        return "\n".join([f"exit status {self.status}, {len(self.steps)} steps", *lines])


def run(models: list[str], out: Path, **environ: str) -> Outcome:
    """Run killer models in one process."""
    command = [sys.executable, str(JOB), "--out", str(out), *models]
    try:
        done = subprocess.run(command, env=environment(**environ), text=True, capture_output=True,
                              timeout=JOB_SECONDS)
        status, errors = done.returncode, done.stderr
    except subprocess.TimeoutExpired as error:
        status, errors = -1, f"{error}"
    lines = out.read_text().splitlines() if out.exists() else []
    return Outcome(status, [json.loads(line) for line in lines], errors)


def groups(killers: list[Killer]) -> list[list[Killer]]:
    """Return killers of distinct models, those together that can share a process."""
    found: dict[tuple, dict[str, Killer]] = {}
    for killer in killers:
        alone = killer.model if killer.model in ALONE else None
        found.setdefault((alone, *sorted(killer.settings.items())), {})[killer.model] = killer
    return [list(group.values()) for group in found.values()]
