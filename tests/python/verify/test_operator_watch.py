"""The watch writes down what operators read and write, and who made it; the job runs on as ever."""

import os
import threading

import pytest

torch = pytest.importorskip("torch")

from tidepool.verify import _fingerprint, _json_lines, _operator_watch  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(scope="module")
def fingerprints():
    return _fingerprint.Fingerprints(torch)


@pytest.fixture
def watched(fingerprints, tmp_path):
    """Runs a function under a watch and returns what was written, by operator."""
    def run(job):
        path = tmp_path / "operators"
        watch = _operator_watch.OperatorWatch(torch, fingerprints, _json_lines.JsonLines(path),
                                              lambda: 7)
        watch.start()
        try:
            job(watch)
        finally:
            watch.stop()
            watch._mode.__exit__(None, None, None)  # a job keeps it, the next test does not
        return list(_json_lines.read(path))
    return run


def named(lines, operator):
    return next(line for line in lines if line["operator"] == operator)


def test_reads_name_their_maker_through_views(watched, fingerprints):
    x = torch.randn(2, 3)

    def job(watch):
        torch.relu(x).t()[1:].exp()

    relu, exp = watched(job)
    assert (relu["operator"], relu["step"]) == ("aten::relu", 7)
    assert relu["reads"] == [["self", fingerprints.of(x), None, "2x3 float32"]]
    assert relu["writes"] == [fingerprints.of(x.relu())]
    assert exp["reads"] == [["self", fingerprints.of(x.relu().t()[1:]), [relu["call"], 0],
                             "2x2 float32"]]


def test_an_alias_that_no_schema_shows_is_made_by_nobody(watched):
    lines = watched(lambda watch: (torch.ones(2, 3, 4) @ torch.ones(4, 5)).exp())
    alias = named(lines, "aten::_unsafe_view")
    assert alias["writes"] == []
    assert named(lines, "aten::exp")["reads"][0][2] == [named(lines, "aten::mm")["call"], 0,
                                                        alias["call"]]


def test_a_call_that_raises_has_read(watched, fingerprints):
    def job(watch):
        with pytest.raises(RuntimeError):
            torch.ones(2, 3) @ torch.ones(2, 3)

    mm = named(watched(job), "aten::mm")
    assert [read[1] for read in mm["reads"]] == [fingerprints.of(torch.ones(2, 3))] * 2
    assert mm["writes"] == []


def test_in_place_operators_read_and_make(watched, fingerprints):
    x = torch.ones(3)

    def job(watch):
        x.mul_(2)
        x.fill_(5)
        torch.add(x, 1, out=x)

    mul, fill, add = watched(job)
    assert mul["reads"][0] == ["self", fingerprints.of(torch.ones(3)), None, "3 float32"]
    assert mul["writes"] == [fingerprints.of(torch.full((3,), 2.0))]
    assert fill["reads"] == []
    assert add["reads"] == [["self", fill["writes"][0], [fill["call"], 0], "3 float32"]]
    assert add["writes"] == [fingerprints.of(torch.full((3,), 6.0))]


def test_memory_that_nobody_filled_is_not_read(watched):
    def job(watch):
        parts = torch.empty(4)
        parts[:2].add_(1)
        parts[:2].copy_(torch.ones(2))
        parts[2:].copy_(torch.zeros(2))
        parts.mul_(3)
        torch.zeros_like(parts)

    lines = watched(job)
    assert "aten::empty" not in " ".join(line["operator"] for line in lines)
    assert [read[0] for read in named(lines, "aten::add_.Tensor")["reads"]] == []
    mul = named(lines, "aten::mul_.Tensor")
    assert mul["reads"][0][2] is not None  # every byte was written by then
    assert named(lines, "aten::zeros_like")["reads"] == []


def test_draws_read_the_generator(watched):
    lines = watched(lambda watch: (torch.rand(2), torch.rand(2),
                                   torch.rand(2, generator=torch.Generator().manual_seed(1))))
    draws = [line["reads"] for line in lines]
    assert [draw[0][0] for draw in draws] == ["random number generator"] * 3
    assert draws[0][0][2] is None and draws[1][0][2] == [lines[0]["call"], 0]
    assert len({draw[0][1] for draw in draws}) == 3


def test_backward_and_hidden_writes_are_seen(watched):
    norm = nn.BatchNorm1d(3)

    def job(watch):
        norm(torch.randn(4, 3)).exp().sum().backward()
        watch.note_fingerprint("buffer", "running_mean", norm.running_mean, "f")

    lines = watched(job)
    forward, last = named(lines, "aten::native_batch_norm"), lines[-1]
    assert named(lines, "aten::native_batch_norm_backward")
    assert last["operator"] == "" and last["reads"] == [
        ["buffer running_mean", "f", [forward["call"], 0], ""]]
    assert "running_mean" in [read[0] for read in forward["reads"]]


def test_random_numbers_are_those_of_an_unwatched_job(watched):
    def job(watch=None):
        torch.manual_seed(3)
        values.append(nn.functional.dropout(torch.rand(50)) + torch.rand(50))

    values = []
    job()
    watched(job)
    assert torch.equal(*values)


def test_other_threads_and_children_pass(watched):
    def job(watch):
        thread = threading.Thread(target=lambda: torch.ones(2).exp())
        thread.start()
        thread.join()
        child = os.fork()
        if child == 0:
            torch.ones(2).exp()
            os._exit(0)
        os.waitpid(child, 0)
        torch.ones(1).log()

    assert [line["operator"] for line in watched(job)] == ["aten::ones", "aten::log"]
