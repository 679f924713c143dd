"""A recording has what a job's own statistics count, with plans, and as far as a killed job got."""

import signal
import sys

import harness
import pytest

JOB = """\
import os, signal, sys
import torch
torch.manual_seed(0)
layers = [part for _ in range(8) for part in (torch.nn.Linear(128, 128), torch.nn.Tanh())]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    loss = model(torch.randn(1024, 128)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 4 and len(sys.argv) > 1:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
print(loss.item().hex())
"""


@pytest.fixture
def recorded(tmp_path):
    (tmp_path / "job.py").write_text(JOB)

    def run(*arguments, front=None):
        front = front or harness.attached("6MiB", "--record", str(tmp_path / "out.rec"),
                                          stats=tmp_path / "stats.json")
        return harness.run([*front, sys.executable, str(tmp_path / "job.py"), *arguments])

    return run


def read(path):
    from tidepool.report import recording

    return recording.read_recording(path)


def test_a_recording_counts_as_the_statistics_do(recorded, tmp_path):
    done, plain = recorded(), recorded(front=["env"])
    assert done.returncode == plain.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    work, stats = read(tmp_path / "out.rec"), harness.read_stats(tmp_path / "stats.json")
    sizes = list(work.history.loss_bytes)
    assert stats["evictions"] > 10
    assert sum(size > 0 for size in sizes) == stats["evictions"]
    assert sum(size for size in sizes if size > 0) == stats["evicted_bytes"]
    assert sum(size < 0 for size in sizes) == stats["rematerializations"]
    assert len(work.history.replay_calls) == stats["operators_replayed"]
    assert max(work.history.held_sizes) == stats["reserved_peak_bytes"] <= 6 << 20
    assert work.searches_ns <= stats["search_ns"]
    assert (work.trace.steps, work.head.ended, work.lost) == (6, True, 0)
    causes = {work.trace.operators[call].name for call, size
              in zip(work.history.loss_calls, sizes, strict=True) if size < 0}
    assert "aten::mm" in causes and "(unknown)" not in causes  # of the backward pass, mostly
    roles = {group[0] for group in work.history.groups}
    assert {0, 1, 2, 4, 6} <= roles  # parameters, optimizer state, gradients, results, evicted


def test_a_killed_job_leaves_what_it_did(recorded, tmp_path):
    assert recorded("SIGKILL").returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    work = read(tmp_path / "out.rec")
    assert (work.trace.steps, work.head.ended) == (5, False)
    done = harness.run([sys.executable, "-m", "tidepool", "report", str(tmp_path / "out.rec")])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.html").stat().st_size > 50_000


def test_a_file_that_is_no_recording_stays(recorded, tmp_path):
    (tmp_path / "out.rec").write_text("a letter")
    done = recorded()
    assert done.returncode == 2
    assert "exists and is no recording" in done.stderr
    assert (tmp_path / "out.rec").read_text() == "a letter"
