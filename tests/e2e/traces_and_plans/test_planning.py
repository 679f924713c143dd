"""A job that repeats its steps under a budget gets a plan for them, and computes the same."""

import sys

import harness

BUDGET = "32MiB"
JOB = """
import sys
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
layers = []
for _ in range(8):
    layers += [torch.nn.Linear(128, 256), torch.nn.Tanh(), torch.nn.Dropout(0.1),
               torch.nn.Linear(256, 128), torch.nn.LayerNorm(128)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
rows = [int(each) for each in sys.argv[2:]] or [1024]
for step in range(int(sys.argv[1])):
    loss = model(torch.randn(rows[step % len(rows)], 128)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 7:
        print(step, loss.item().hex())
for parameter in model.parameters():
    print(parameter.double().sum().item().hex())
"""


def run_job(tmp_path, steps: int, planning: str | None = None, rows=()):
    """Run the job, without Tidepool or with; return what it printed, and its statistics.

    Args:
        tmp_path: a folder for its files
        steps: how many
        planning: TIDEPOOL_PLANNING; None: the job runs without Tidepool
        rows: how many rows the batches have, in turn
    """
    script, stats = tmp_path / "job.py", tmp_path / "stats.json"
    script.write_text(JOB)
    front = harness.attached(BUDGET, stats=stats) if planning else []
    environ = {"TIDEPOOL_PLANNING": planning} if planning else {}
    words = [str(each) for each in (steps, *rows)]
    done = harness.run([*front, sys.executable, str(script), *words], **environ)
    assert done.returncode == 0, done.stderr
    return done.stdout, harness.read_stats(stats) if planning else None


def test_steps_that_follow_a_plan_give_the_same_bits(tmp_path):
    plain, _ = run_job(tmp_path, 20)
    found, planned = run_job(tmp_path, 20, "wait")
    assert found == plain
    assert planned["step_searches"] == planned["step_plans"] == 1
    assert planned["step_search_ns"] > 0
    assert planned["reserved_peak_bytes"] <= planned["budget_bytes"]
    found, without = run_job(tmp_path, 20, "off")
    assert found == plain
    assert without["step_searches"] == 0
    assert without["evictions"] > 0
    # The plan was followed: other storages are evicted than without it.
    evicted = ("evictions", "evicted_bytes", "operators_replayed")
    assert [planned[key] for key in evicted] != [without[key] for key in evicted]


def test_steps_of_new_sizes_that_are_foreseen_give_the_same_bits(tmp_path):
    # Four sizes come again, so that a plan is found for some; the others come once each.
    rows = [1024, 896, 768, 640] * 6 + [1000, 900, 960, 1020, 680, 1010, 840]
    plain, _ = run_job(tmp_path, len(rows), rows=rows)
    found, stats = run_job(tmp_path, len(rows), "wait", rows)
    assert found == plain
    assert stats["foreseen_kept"] >= 5
    assert stats["foreseen_bytes_error_most"] < 0.03
    assert stats["foreseen_tried"] >= 1
    assert stats["reserved_peak_bytes"] <= stats["budget_bytes"]


def test_a_job_may_end_while_a_search_is_under_way(tmp_path):
    _, stats = run_job(tmp_path, 5, "background")
    assert stats["step_searches"] <= 1
