"""Jobs on the stand-in CUDA device whose PyTorch allocates through libtidepool_pluggable.so."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import standin

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
JOB_SECONDS = 300


# Before 3.14, Python ends a thread that wants its lock while the interpreter ends, which no C++ on
# its stack survives: now and then PyTorch's thread of a backward pass that has just been done.
ENDED_AT_EXIT = "terminate called without an active exception\n"


class Jobs:
    """Runs scripts to their end."""

    example = ROOT / "docs" / "examples" / "pluggable_allocator.py"

    def run(self, script: Path | str, *arguments: str, environ: dict[str, str] | None = None,
            **knobs: standin.Knob) -> subprocess.CompletedProcess[str]:
        made = {**standin.environment(**{"memory": "1GiB", **knobs}),
                "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **(environ or {})}
        for _ in range(2):
            done = subprocess.run([sys.executable, str(HERE / script), *arguments], env=made,
                                  text=True, capture_output=True, timeout=JOB_SECONDS)
            if (done.returncode, done.stderr) != (-signal.SIGABRT, ENDED_AT_EXIT):
                break
        return done

    def json(self, *arguments: str, **options) -> dict:
        done = self.run("pluggable_job.py", *arguments, **options)
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-4000:]}"
        return {**json.loads(done.stdout.splitlines()[-1]), "stderr": done.stderr}


@pytest.fixture(scope="session")
def jobs() -> Jobs:
    return Jobs()
