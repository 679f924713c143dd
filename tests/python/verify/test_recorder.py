"""The recorder writes each step of a job, in the order of events, and stops it when told to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tidepool.verify import _json_lines, _recorder, _step_log  # noqa: E402
from torch import nn  # noqa: E402

EVENTS = ["loss", "gradient", "parameter", "buffer", "random"]


@pytest.fixture
def recorder(tmp_path):
    return _recorder.Recorder(torch, _recorder.Task(str(tmp_path)))


@pytest.fixture
def lines(tmp_path):
    def read():
        paths = sorted(tmp_path.glob(f"*{_step_log.SUFFIX}"))
        return [line for path in paths for line in _json_lines.read(path)]
    return read


def follow(recorder, optimizer):
    optimizer.register_step_pre_hook(recorder._outermost(recorder.before_step))
    optimizer.register_step_post_hook(recorder._outermost(recorder.after_step))
    return optimizer


def events(found):
    return [line for line in found if line["kind"] in EVENTS]


def test_a_step_in_order(recorder, lines, monkeypatch):
    monkeypatch.setattr(torch.autograd, "_engine_run_backward",
                        recorder._following(torch.autograd._engine_run_backward))
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2, affine=False))
    unused = nn.Parameter(torch.ones(1))
    optimizer = follow(recorder, torch.optim.SGD([*model.parameters(), unused], lr=0.1))
    of = recorder._fingerprints.of
    for step in (1, 2):
        loss = model(torch.randn(3, 2)).pow(2).sum()
        loss.backward()
        gradient = of(model[0].weight.grad)
        optimizer.step()
        found = events(lines())[-len(EVENTS):]
        assert [line["kind"] for line in found] == EVENTS
        assert {line["step"] for line in found} == {step}
        fingerprints = {line["kind"]: line["fingerprints"] for line in found}
        assert fingerprints["loss"] == [of(loss)]
        assert fingerprints["gradient"] == [gradient, None]
        assert fingerprints["parameter"] == [of(model[0].weight), of(unused)]
        assert fingerprints["buffer"] == [of(buffer) for buffer in model.buffers()]
        assert fingerprints["random"] == [of(torch.default_generator.get_state())]
    labels = {line["of"]: line["labels"] for line in lines() if line["kind"] == "labels"}
    assert labels["parameter"] == ["0.weight (2x2 float32)", "group 0 parameter 1 (1 float32)"]
    assert labels["loss"] == ["loss (scalar float32)"]
    assert lines()[0] | {"pid": 0} == {"kind": "process", "pid": 0, "attached": False,
                                       "torch": torch.__version__}


def test_steps_are_only_counted_and_timed_without_comparing(tmp_path, lines):
    recorder = _recorder.Recorder(torch, _recorder.Task(str(tmp_path), compare=False))
    recorder._fingerprints = None  # nothing is looked at
    weight = nn.Parameter(torch.ones(2))
    optimizer = follow(recorder, torch.optim.SGD([weight], lr=0.1))
    for _ in range(3):
        weight.sum().backward()
        optimizer.step()
    (summary,) = _step_log.summaries(tmp_path).values()
    assert summary.steps == len(summary.wall_ns) == len(summary.processor_ns) == 3
    assert min(summary.wall_ns) > 0
    assert all(line["fingerprints"] == [] for line in events(lines()))


def test_a_backward_inside_of_backward_is_no_loss(recorder, lines, monkeypatch):
    from torch.utils.checkpoint import checkpoint

    monkeypatch.setattr(torch.autograd, "_engine_run_backward",
                        recorder._following(torch.autograd._engine_run_backward))
    x = torch.ones(2, requires_grad=True)
    checkpoint(torch.exp, x, use_reentrant=True).sum().backward()
    torch.autograd.grad([x.sum(), x.prod()], x)
    assert [len(line["fingerprints"]) for line in events(lines())] == [1, 2]


def test_several_optimizers_and_closures(recorder, lines):
    x = nn.Parameter(torch.ones(2))
    first = follow(recorder, torch.optim.SGD([x], lr=0.1))
    second = follow(recorder, torch.optim.LBFGS([x]))

    def closure():
        loss = x.square().sum()
        x.grad = 2 * x.detach()
        return loss

    first.step()
    second.step(closure)
    first.step()
    found = [(line["step"], line["optimizer"]) for line in lines() if line["kind"] == "parameter"]
    assert found == [(1, 0), (2, 1), (3, 0)]


def test_a_step_inside_of_a_step_and_a_step_that_raises(recorder, lines):
    class Outer(torch.optim.SGD):
        fails = False

        def step(self, closure=None):
            if self.fails:
                raise ValueError
            super().step()

    x = nn.Parameter(torch.ones(2))
    x.grad = torch.ones(2)
    optimizer = follow(recorder, Outer([x], lr=0.1))
    optimizer.step()
    optimizer.fails = True
    with pytest.raises(ValueError):
        optimizer.step()
    optimizer.fails = False
    optimizer.step()
    kinds = [line["kind"] for line in lines() if line["kind"] in ("gradient", "parameter")]
    assert kinds == ["gradient", "parameter", "gradient", "gradient", "parameter"]


def test_a_fault_of_the_recorder_is_not_the_jobs(recorder, lines, monkeypatch, capsys):
    x = nn.Parameter(torch.ones(2))
    optimizer = follow(recorder, torch.optim.SGD([x], lr=0.1))
    monkeypatch.setattr(recorder._fingerprints, "of", lambda tensor: 1 // 0)
    optimizer.step()
    optimizer.step()
    assert lines()[-1] == {"kind": "broken",
                           "reason": "ZeroDivisionError: integer division or modulo by zero"}
    assert "Traceback" in capsys.readouterr().err

    def refuse(tensor):
        raise torch.OutOfMemoryError("cannot restore")

    other = _recorder.Recorder(torch, recorder._task)
    monkeypatch.setattr(other._fingerprints, "of", refuse)
    with pytest.raises(torch.OutOfMemoryError):
        follow(other, torch.optim.SGD([x], lr=0.1)).step()


def test_what_came_back_otherwise_is_written_with_its_step(recorder, lines, monkeypatch):
    x = nn.Parameter(torch.ones(2))
    optimizer = follow(recorder, torch.optim.SGD([x], lr=0.1))
    noticed = {}
    monkeypatch.setattr(recorder, "_counters", lambda: {"contents_different": noticed})
    optimizer.step()
    noticed["aten::mm"] = 2
    optimizer.step()
    assert [line for line in lines() if line["kind"] == "restored"] == [
        {"kind": "restored", "step": 2, "different": {"aten::mm": 2}}]


def test_nothing_is_written_after_the_end(recorder, lines):
    x = nn.Parameter(torch.ones(2))
    x.grad = torch.ones(2)
    optimizer = follow(recorder, torch.optim.SGD([x], lr=0.1))
    optimizer.step()
    recorder.finish()
    recorder.finish()
    optimizer.step()
    recorder.before_backward([x])
    assert lines()[-1] == {"kind": "end", "reason": "exit", "evictions": 0, "replays": 0,
                           "out_of_memory": 0, "peak_bytes": 0, "coverage": {}}
    assert [line["kind"] for line in lines()].count("end") == 1


def test_a_process_that_lacks_memory_before_its_first_step_says_so(recorder, lines, tmp_path,
                                                                    monkeypatch):
    recorder.finish()
    assert lines() == [] and not list(tmp_path.iterdir())
    monkeypatch.setattr(recorder, "_counters", lambda: {"num_ooms": 1})
    recorder.finish()
    assert lines() == []  # a log would take the number of another process
    assert [path.suffix for path in tmp_path.iterdir()] == [_recorder.LACKED]


def test_each_process_has_a_log_of_its_own(recorder, tmp_path, monkeypatch):
    recorder.before_backward([torch.ones(1)])
    child = os.fork()
    if child == 0:
        recorder._start_over()  # what the fork handler does
        recorder.before_backward([torch.zeros(1)])
        os._exit(0)
    os.waitpid(child, 0)
    for rank in ("3", "no/number"):
        monkeypatch.setenv("RANK", rank)
        recorder._start_over()
        recorder.before_backward([torch.zeros(1)])
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["process_0", "process_1",
                                                                "process_2", "rank_3_0"]


JOB = """\
import os, sys, threading, torch
x = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([x], lr=0.1)
def train():
    for step in range(5):
        x.sum().backward()
        try:
            optimizer.step()
        except {caught}:
            print("stopped", flush=True)
if "{caught}" == "KeyError":
    train()
else:
    thread = threading.Thread(target=train) if len(sys.argv) > 1 else None
    thread.start() if thread else train()
"""


@pytest.mark.parametrize("caught, arguments, printed", [
    ("KeyError", [], ""), ("BaseException", [], "stopped\n"), ("BaseException", ["thread"], "")])
def test_a_job_is_stopped_after_its_steps(tmp_path, caught, arguments, printed):
    task = _recorder.Task(str(tmp_path), steps=2, watch=2)
    package = Path(_recorder.__file__).parents[1]
    job = (f"import sys; sys.path.insert(0, {str(package.parent)!r})\nimport torch\n"
           "from tidepool import _autoload\n_autoload.attach_from_environment()\n"
           + JOB.format(caught=caught))
    done = subprocess.run([sys.executable, "-c", job, *arguments], text=True, capture_output=True,
                          env={**os.environ, _recorder.VARIABLE: task.to_variable()}, timeout=60)
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    summary = _step_log.summaries(tmp_path)["process_0"]
    assert (summary.steps, summary.stopped) == (2, True)
    text = (tmp_path / "process_0.operators").read_text().splitlines()
    assert {json.loads(line)["step"] for line in text} == {2}
