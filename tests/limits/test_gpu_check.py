"""What is to be measured on a GPU runs on the stand-in device, and leaves its results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits_support import ROOT, TIMEOUT_SECONDS

sys.path.insert(0, str(ROOT / "tests" / "support"))

import standin  # noqa: E402


def gpu_check(*arguments: str, environ: dict | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([str(ROOT / "dev"), "gpu-check", *arguments], text=True,
                          capture_output=True, timeout=TIMEOUT_SECONDS,
                          env={**(environ or os.environ), "PYTHON": sys.executable})


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("gpu")
    environ = standin.environment(touch=False, granularity="64KiB")
    done = gpu_check("--stage", "ab", "--smoke", "--out", str(out), environ=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_prices_of_the_driver(done):
    content = json.loads(next(done.glob("gpu-b-*.json")).read_text())
    assert content["commit"] and content["smoke"]
    assert [part["error"] for part in content["parts"].values()] == [""] * 3
    names = {result["name"] for result in content["parts"]["prices"]["results"]}
    for call in ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"):
        for state in ("idle", "with work in flight"):
            assert f"{call} of 20.00 MiB, {state}" in names
    assert content["parts"]["wall"]["facts"]["mappings"] == 1000
    assert content["parts"]["waits"]["facts"]["error of the work, 0 for none"] == 0


def test_bits_and_budget(done):
    """No kernel runs on the stand-in device, so that bits cannot differ; the rest is real."""
    content = json.loads(next(done.glob("gpu-a-*.json")).read_text())
    assert [part["error"] for part in content["parts"].values()] == [""] * 3
    for part in content["parts"].values():
        facts = {name.removeprefix("default: "): value for name, value in part["facts"].items()}
        assert facts["the plain job equals itself"] == facts["the budget was kept"] == 1
        assert facts["the same bits under the budget"] == 1
        assert facts["evictions"] > 0
        assert facts["budget, MiB"] < facts["plain peak allocated, MiB"]


def test_the_table_has_every_figure(done):
    text = next(done.glob("gpu-b-*.md")).read_text()
    assert "| cuEventQuery, idle |" in text
    assert "- mappings: 1000" in text


def test_without_a_gpu_it_fails_and_says_so(tmp_path):
    done = gpu_check("--stage", "b", "--smoke", "--out", str(tmp_path))
    if done.returncode == 0:
        pytest.skip("there is a GPU")
    assert "no CUDA driver" in done.stdout


def test_an_unknown_stage_is_refused():
    done = gpu_check("--stage", "z")
    assert done.returncode == 2
    assert "no stage z (there are: a, b)" in done.stderr
