"""A job follows a plan file that was made from its trace, and computes the same."""

import functools
import subprocess
import sys
from pathlib import Path

import harness
import pytest

BUDGET = "9MiB"
JOB = """
import sys
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
width = int(sys.argv[1])
layers = []
for _ in range(4):
    layers += [torch.nn.Linear(128, width), torch.nn.Tanh(), torch.nn.Dropout(0.1),
               torch.nn.Linear(width, 128), torch.nn.LayerNorm(128)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(5):
    loss = model(torch.randn(512, 128)).pow(2).mean()
    if step == int(sys.argv[2]):
        loss = loss + model[0].weight.abs().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
for parameter in model.parameters():
    print(parameter.double().sum().item().hex())
"""
NEVER = "99"  # a step that differs


@functools.cache
def plain_job(width: str = "256", differs: str = NEVER) -> str:
    """Return what the job prints without Tidepool."""
    done = harness.run([sys.executable, "-c", JOB, width, differs])
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_job(folder: Path, *options: str, width: str = "256", differs: str = NEVER):
    """Run the job with Tidepool; return what it printed, and statistics."""
    script, stats = folder / "job.py", folder / "stats.json"
    script.write_text(JOB)
    done = harness.run([*harness.attached(BUDGET, *options, stats=stats),
                        sys.executable, str(script), width, differs])
    assert done.returncode == 0, done.stderr
    return done, harness.read_stats(stats)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with a trace of the job's third step and a plan for it."""
    folder = tmp_path_factory.mktemp("plans")
    script, trace = folder / "job.py", folder / "trace.jsonl.gz"
    script.write_text(JOB)
    harness.run([sys.executable, "-m", "tidepool", "run", "--device", "cpu", "--trace", str(trace),
                 "--trace-steps", "3", "--", sys.executable, str(script), "256", NEVER])
    done = harness.run([sys.executable, "-m", "tidepool", "plan", str(trace), "--budget", BUDGET,
                        "-o", str(folder / "plan")])
    assert done.returncode == 0, done.stderr
    return folder


def test_steps_that_follow_a_plan_file_give_the_same_bits(folder, tmp_path):
    planned, stats = run_job(tmp_path, "--plan", str(folder / "plan"))
    assert planned.stdout == plain_job()
    assert stats["step_plans"] == 1
    assert stats["step_searches"] == 0
    assert "not followed" not in planned.stderr
    _, without = run_job(tmp_path, "--policy", "needed-cost")
    evicted = ("evictions", "evicted_bytes", "operators_replayed")
    assert [stats[key] for key in evicted] != [without[key] for key in evicted]


def test_a_plan_file_under_chaos_gives_the_same_bits(folder, tmp_path):
    found, stats = run_job(tmp_path, "--plan", str(folder / "plan"), "--chaos=bounded:3")
    assert found.stdout == plain_job()
    assert stats["step_plans"] == 1
    assert stats["contents_compared"]
    assert not stats["contents_different"]


def test_a_step_that_differs_goes_on_without_its_plan(folder, tmp_path):
    found, stats = run_job(tmp_path, "--plan", str(folder / "plan"), differs="3")
    assert found.stdout == plain_job(differs="3")
    assert stats["step_plans"] == 1


def test_a_plan_for_other_sizes_is_not_followed(folder, tmp_path):
    found, stats = run_job(tmp_path, "--plan", str(folder / "plan"), width="200")
    assert found.stdout == plain_job(width="200")
    assert stats["step_plans"] == 0
    assert f"the plans of {folder / 'plan'} are for other steps" in found.stderr


def test_a_damaged_plan_file_is_refused(folder, tmp_path):
    whole = (folder / "plan").read_bytes()
    damaged = tmp_path / "plan"
    for content, reason in ((whole.replace(b":", b": ", 1), "is damaged"),
                            (whole[:-9], "is cut short"), (b"{}\n", "is no plan file")):
        damaged.write_bytes(content)
        done = subprocess.run(
            [*harness.attached(BUDGET, "--plan", str(damaged)), sys.executable, "-c", "pass"],
            capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert reason in done.stderr
