"""The instruments on real jobs: `doctor` where PyTorch is, and `probe`."""

import json
import sys

import harness
import pytest


@pytest.mark.torch_floor
def test_this_installation_is_healthy():
    done = harness.run([sys.executable, "-m", "tidepool", "doctor", "--json"])
    facts = json.loads(done.stdout)
    assert done.returncode == 0, facts["findings"]
    on_cpu = facts["devices"]["cpu"]
    assert on_cpu["attached"]["evictions"] > 50 and on_cpu["attached"]["replays"] > 50
    assert on_cpu["inspect"]["results"] == on_cpu["attached"]["results"]


JOB = """\
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
layers = [layer for _ in range(8) for layer in (torch.nn.Linear(128, 128), torch.nn.Tanh())]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters())
for step in range(100):
    loss = model(torch.randn(1024, 128)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.long
def test_a_budget_is_found_and_proved(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    done = harness.run([sys.executable, "-m", "tidepool", "probe", "--memory", "6MiB", "--json",
                        str(tmp_path / "job.py")])
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert 6 << 20 < result["peak_bytes"] < 12 << 20
    assert 2 << 20 < result["least"]["budget_bytes"] <= 6 << 20
    assert result["recommended"]["evictions"] > 0 and result["recommended"]["overhead"] > 1
    proof = result["proof"]
    assert proof["proved"] and proof["steps"] == 8 and proof["difference"] is None
    assert proof["evictions"] > 0 and proof["peak_bytes"] <= 6 << 20
    assert result["points"][0]["runs"] is False and result["points"][-1]["overhead"] < 1.01
