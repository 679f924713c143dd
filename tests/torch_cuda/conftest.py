"""Jobs on the stand-in CUDA device, with PyTorch's own allocator and with Tidepool's."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import standin

HERE = Path(__file__).resolve().parent
JOB_SECONDS = 600


class Jobs:
    """Runs the scripts of this folder, each with the same arguments once only."""

    def __init__(self) -> None:
        self.json = functools.cache(self._json)

    def run(self, script: str, *arguments: str, budget: str | None = None,
            environ: tuple[tuple[str, str], ...] = (), seconds: float = JOB_SECONDS,
            **knobs: standin.Knob) -> subprocess.CompletedProcess[str]:
        """Run a script to its end, by `tidepool run` where a budget is given."""
        made = {**standin.environment(**knobs), "OMP_NUM_THREADS": "1", **dict(environ)}
        command = [sys.executable, str(HERE / script), *arguments]
        if budget:
            command = [sys.executable, "-m", "tidepool", "run", "--device", "cuda",
                       "--budget", budget, "--", *command]
        return subprocess.run(command, env=made, text=True, capture_output=True,
                              timeout=seconds)

    def _json(self, script: str, *arguments: str, **options) -> dict:
        done = self.run(script, *arguments, **options)
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-4000:]}"
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def jobs() -> Jobs:
    return Jobs()
