"""Jobs on the stand-in CUDA device whose PyTorch allocates through libtidepool_pluggable.so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import standin

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
JOB_SECONDS = 300


class Jobs:
    """Runs scripts to their end."""

    example = ROOT / "docs" / "examples" / "pluggable_allocator.py"

    def run(self, script: Path | str, *arguments: str, environ: dict[str, str] | None = None,
            **knobs: standin.Knob) -> subprocess.CompletedProcess[str]:
        made = {**standin.environment(**{"memory": "1GiB", **knobs}),
                "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **(environ or {})}
        return subprocess.run([sys.executable, str(HERE / script), *arguments], env=made,
                              text=True, capture_output=True, timeout=JOB_SECONDS)

    def json(self, *arguments: str, **options) -> dict:
        done = self.run("pluggable_job.py", *arguments, **options)
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-4000:]}"
        return {**json.loads(done.stdout.splitlines()[-1]), "stderr": done.stderr}


@pytest.fixture(scope="session")
def jobs() -> Jobs:
    return Jobs()
