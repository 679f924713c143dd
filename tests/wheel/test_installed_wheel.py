"""The wheel that `./dev wheel` has made, installed beside each PyTorch that it is for."""

import json
import subprocess
import sys
from pathlib import Path

import environments
import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = sorted(path.parents[4] for path in
                      ROOT.glob(".venv*/lib/python3*/site-packages/torch/version.py"))
JOB = """\
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(16)])
loss = model(torch.ones(1000, 256)).square().mean()
loss.backward()
print(torch.__version__)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    (wheel,) = (ROOT / "dist").glob("tidepool-*.whl")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
                    "--target", folder, wheel], check=True)
    return folder


def run(environment: Path, site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = environments.clean_environment(PYTHONPATH=str(site), CUDA_VISIBLE_DEVICES="")
    return subprocess.run([environment / "bin" / "python", *arguments], env=environ, cwd=site,
                          text=True, capture_output=True, timeout=300)


def test_there_is_a_plugin_for_each_environment(site):
    versions = {path.stem.removeprefix("libtidepool_torch_")
                for path in (site / "tidepool" / "lib").glob("libtidepool_torch_[0-9]*.so")}
    assert len(ENVIRONMENTS) == len(versions) == 5


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda path: path.name)
def test_it_is_healthy(environment, site):
    done = run(environment, site, "-m", "tidepool", "doctor", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0, facts["findings"]
    assert facts["shim"] == str(site / "tidepool" / "lib" / "libtidepool_preload.so")
    on_cpu = facts["devices"]["cpu"]
    assert on_cpu["inspect"]["plugins"] == {"cpu": "", "cuda": ""}
    assert on_cpu["attached"]["evictions"] > 50
    assert on_cpu["inspect"]["results"] == on_cpu["attached"]["results"]


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda path: path.name)
def test_a_job_runs_under_a_budget(environment, site, tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    done = run(environment, site, "-m", "tidepool", "run", "--budget", "24MiB", "--",
               str(environment / "bin" / "python"), str(tmp_path / "job.py"))
    assert done.returncode == 0, done.stderr
    assert "attached, budget 24 MiB on cpu" in done.stderr
    assert " of 24 MiB" in done.stderr and " 0 evictions" not in done.stderr
