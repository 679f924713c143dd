"""Two step logs are compared event by event; the first difference has a step and a name."""

import pytest
from tidepool.verify import _step_log
from tidepool.verify._json_lines import JsonLines
from tidepool.verify._step_log import Difference

PROCESS = {"kind": "process", "pid": 1, "attached": True, "torch": "2.15.0"}


def labels(kind, *names, optimizer=0):
    return {"kind": "labels", "of": kind, "optimizer": optimizer, "labels": names}


def event(kind, step, *fingerprints, optimizer=0):
    return {"kind": kind, "step": step, "optimizer": optimizer, "fingerprints": fingerprints}


def step(number, loss="l", gradient="g", parameter="p"):
    return [event("loss", number, loss), event("gradient", number, gradient, None),
            event("parameter", number, parameter, "q")]


HEAD = [PROCESS, labels("loss", "loss (scalar)"), labels("gradient", "w (2)", "b (1)"),
        labels("parameter", "w (2)", "b (1)")]
LOG = [*HEAD, *step(1), *step(2)]


@pytest.fixture
def write(tmp_path):
    def write(run, lines, stem="process_0"):
        folder = tmp_path / run
        folder.mkdir(exist_ok=True)
        log = JsonLines(folder / f"{stem}.steps")
        for line in lines:
            log.write(line)
        return folder
    return write


@pytest.mark.parametrize("other, expected", [
    (LOG, None),
    ([*HEAD, *step(1), *step(2, loss="x")], Difference(2, "loss (scalar)")),
    ([*HEAD, *step(1, gradient="x", parameter="x"), *step(2, loss="x")],
     Difference(1, "gradient w (2)", others=1)),
    ([*HEAD, *step(1), event("loss", 2, "l"), event("gradient", 2, "g", "new"), *step(2)[2:]],
     Difference(2, "gradient b (1)")),
    ([*HEAD, *step(1), *step(2, parameter="unreadable (A: B)")], Difference(2, "parameter w (2)")),
    ([*HEAD, *step(1)], Difference(2, "the first run starts backward where the other has ended",
                                   is_tensor=False)),
    ([*LOG, *step(3)], Difference(3, "the first run has ended where the other starts backward",
                                  is_tensor=False)),
    ([*HEAD, *step(1), *step(2)[1:]],
     Difference(2, "the first run starts backward where the other steps an optimizer",
                is_tensor=False)),
    ([*HEAD, *step(1), event("loss", 2, "l", "l2")], Difference(2, "tensor 1")),
])
def test_the_first_difference(write, other, expected):
    assert _step_log.first_difference(write("a", LOG), write("b", other)) == expected


def test_processes_that_start_at_once_are_compared_with_those_that_did_the_same(write):
    logs = [[*HEAD, *step(1, loss=loss)] for loss in ("a", "b", "c")]
    wrong = [*HEAD, *step(1, loss="b", gradient="x")]

    def folder(name, order, stem="process"):
        for number, which in enumerate(order):
            made = write(name, which, f"{stem}_{number}")
        return made

    first = folder("first", logs)
    assert _step_log.first_difference(first, folder("turned", logs[1:] + logs[:1])) is None
    found = _step_log.first_difference(first, folder("wrong", [logs[2], logs[0], wrong]))
    assert (found.what, found.process, found.step) == ("gradient w (2)", "process_1", 1)
    found = _step_log.first_difference(first, folder("fewer", logs[1:]))
    assert (found.process, found.is_tensor) == ("process_0", False)
    ranks = folder("ranks", [logs[1], logs[0]], "rank_0")
    assert _step_log.first_difference(folder("before", logs[:2], "rank_0"), ranks).what == (
        "loss (scalar)")


def test_other_optimizers_are_told_apart(write):
    first = [*HEAD, event("gradient", 1, "g", optimizer=0)]
    other = [*HEAD, event("gradient", 1, "g", optimizer=1)]
    found = _step_log.first_difference(write("a", first), write("b", other))
    assert "steps an optimizer (optimizer 0, step 1)" in found.what


def test_what_a_run_that_ended_early_did_not_come_to_does_not_count(write):
    short, empty = [*HEAD, *step(1), *step(2)[:1]], write("c", [])
    full = write("a", LOG)
    assert _step_log.first_difference(full, write("b", short), ended=True) is None
    assert _step_log.first_difference(full, empty, ended=True) is None
    wrong = [*HEAD, *step(1, loss="x")]
    assert _step_log.first_difference(full, write("d", wrong), ended=True).step == 1


def test_the_process_with_the_earliest_difference_is_named(write):
    first, other = write("a", LOG, "rank_0_0"), write("b", [*HEAD, *step(1), *step(2, "x")],
                                                      "rank_0_0")
    write("a", LOG, "rank_1_0")
    write("b", [*HEAD, *step(1, "x"), *step(2)], "rank_1_0")
    found = _step_log.first_difference(first, other)
    assert (found.step, found.process) == (1, "rank_1_0")


def test_summaries(write):
    counters = {"evictions": 3, "replays": 4, "out_of_memory": 1, "peak_bytes": 5}
    end = {"kind": "end", "reason": "steps", **counters}
    folder = write("a", [*HEAD, *step(1, parameter="unreadable (A: B)"), end])
    write("a", [PROCESS | {"attached": False}, event("loss", 1, "l")], "process_1")
    write("a", [PROCESS, {"kind": "broken", "reason": "KeyError: 1"}], "process_2")
    restored = [{"kind": "restored", "step": n, "different": {"mm": n}} for n in (2, 3)]
    write("a", [PROCESS, *restored], "process_3")
    found = _step_log.summaries(folder)
    assert found["process_0"] == _step_log.Summary(
        True, 1, True, counters, True, unreadable=1)
    assert found["process_1"] == _step_log.Summary()
    assert found["process_2"].broken == "KeyError: 1"
    assert found["process_3"].restored_otherwise == {"mm": 2}
    lasting = [{"kind": "counters", **counters, "evictions": n} for n in (1, 2)]
    killed = _step_log.summaries(write("b", [*HEAD, *step(1), *lasting]))["process_0"]
    assert not killed.finished and killed.counters == counters | {"evictions": 2}
