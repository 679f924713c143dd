"""Each verdict of `tidepool verify`, on made-up runs: which runs, what words, which status."""

import os
import signal
import subprocess
import sys
import time

import pytest
from tidepool.verify import _operator_log, _recorder, _runs, _step_log, _verify
from tidepool.verify._json_lines import JsonLines

STEPS = 3


class Script:
    """Stands in for running a job: what each run records, by its number from 1."""

    def __init__(self) -> None:
        self.changes: dict[int, dict] = {}
        self.environs: list[dict] = []
        self.tasks: list[_recorder.Task] = []

    def change(self, *runs: int, **what) -> None:
        for run in runs:
            self.changes[run] = what

    def run_job(self, command, environ, output, progress) -> int:
        task = _recorder.Task.from_variable(environ[_recorder.VARIABLE])
        self.environs.append(environ)
        self.tasks.append(task)
        what = {"steps": STEPS, "status": 0, "weights": {}, "attached": True, "evictions": 5,
                "out_of_memory": 0, "lacked": False, "relu": "r", "broken": None, "started": True,
                "restored": {}, "coverage": {}}
        what |= self.changes.get(len(self.tasks), {})
        if output is not None:
            output.write(what.get("printed", b"what the job printed\n"))
        if what["lacked"]:
            open(os.path.join(task.folder, f"1{_recorder.LACKED}"), "w").close()
        if what["started"]:
            open(os.path.join(task.folder, f"1{_recorder.STARTED}"), "w").close()
            self.record(task, what, "TIDEPOOL_BUDGET" in environ)
        return what["status"]

    @staticmethod
    def record(task, what, is_attached) -> None:
        log = JsonLines(_verify.Path(task.folder, f"process_0{_step_log.SUFFIX}"))
        log.write({"kind": "process", "attached": is_attached and what["attached"]})
        log.write({"kind": "labels", "of": "parameter", "optimizer": 0, "labels": ["w (2)"]})
        for step in range(1, what["steps"] + 1):
            log.write({"kind": "parameter", "step": step, "optimizer": 0,
                       "fingerprints": [what["weights"].get(step, "w")]})
        for step, different in what["restored"].items():
            log.write({"kind": "restored", "step": step, "different": different})
        if what["broken"]:
            log.write({"kind": "broken", "reason": what["broken"]})
        log.write({"kind": what.get("last", "end"), "reason": "exit", "replays": 2,
                   "evictions": what["evictions"], "out_of_memory": what["out_of_memory"],
                   "coverage": what["coverage"]})
        if task.watch:
            operators = JsonLines(_verify.Path(task.folder, f"process_0{_operator_log.SUFFIX}"))
            maker = [1, 0] if task.watch <= what.get("made_in", 1) else None
            operators.write({"call": 1, "step": task.watch, "operator": "aten::relu", "reads": [],
                             "writes": ["r"]})
            operators.write({"call": 2, "step": task.steps, "operator": "aten::mm",
                             "reads": [["self", what["relu"], maker, "2 float32"]], "writes": []})


@pytest.fixture
def script(monkeypatch):
    made = Script()
    monkeypatch.setattr(_runs, "run_job", made.run_job)
    return made


@pytest.fixture
def verify(capsys):
    """Verifies a job; returns the exit status and the report."""
    def run(steps=None):
        environ = {"PATH": "/bin", "TIDEPOOL_BUDGET": "1GiB", "TIDEPOOL_CHAOS": "op",
                   "LD_PRELOAD": "shim"}
        status = _verify.main(["job"], environ, steps)
        return status, capsys.readouterr().out
    return run


def test_the_same(script, verify):
    status, report = verify(steps=7)
    assert (status, report.split(",")[0]) == (_verify.SAME, "same: 3 steps")
    assert "5 evictions, 2 operators replayed" in report and "note" not in report
    assert ["TIDEPOOL_BUDGET" in environ for environ in script.environs] == [False, False, True]
    assert {environ["LD_PRELOAD"] for environ in script.environs} == {"shim"}
    assert {task.steps for task in script.tasks} == {7}
    assert len({task.folder for task in script.tasks}) == 3


def test_a_run_without_pressure_shows_little(script, verify):
    script.change(3, evictions=0)
    assert "note: nothing was evicted" in verify()[1]


def test_what_chaos_has_tried_is_told(script, verify):
    script.change(3, coverage={"aten::mm": {"made": 300, "restored": 299},
                               "aten::relu": {"made": 100, "restored": 1},
                               "aten::exp": {"made": 2, "restored": 0}})
    report = verify()[1]
    assert "evicted and restored at least once: 75 % of 402 results of 3 operators\n" in report
    assert "the least: aten::exp 0 % of 2, aten::relu 1 % of 100, aten::mm 99 % of 300\n" in report
    assert "restored at least once" not in verify()[1]  # the last run was not under chaos


def test_it_differs_and_the_operator_is_found(script, verify):
    script.change(3, weights={2: "BAD", 3: "BAD"})
    script.change(5, relu="BAD")
    status, report = verify()
    assert status == _verify.DIFFERS
    assert report == (
        "differs: the job equals itself, but not with Tidepool\n"
        "  first difference: step 2 of 3: parameter w (2)\n"
        "  operator: aten::relu (call 1 of step 1): what it made was kept or restored with other "
        "contents, first read by aten::mm (call 1 of step 2) (self, 2 float32)\n")
    assert [(task.steps, task.watch) for task in script.tasks[3:]] == [(2, 1), (2, 1)]


def test_the_maker_is_looked_for_further_back(script, verify):
    script.change(3, weights={3: "BAD"})
    script.change(5, 7, relu="BAD")
    _, report = verify()
    assert [task.watch for task in script.tasks[3:]] == [2, 2, 1, 1]
    assert "operator: aten::relu (call 1 of step 1)" in report


@pytest.mark.parametrize("change", [{}, {"broken": "KeyError"}])
def test_it_differs_and_no_operator_is_found(script, verify, change):
    script.change(3, weights={1: "BAD"})
    script.change(4, **change)
    status, report = verify()
    assert status == _verify.DIFFERS and "operator: not found" in report


def test_a_job_that_ends_without_its_exit_handlers(script, verify):
    script.change(3, last="counters")
    status, report = verify()
    assert status == _verify.SAME
    assert "with Tidepool: 5 evictions" in report and "without its exit handlers" in report


def test_it_differs_in_the_number_of_steps(script, verify):
    script.change(3, steps=2, out_of_memory=1)
    status, report = verify()
    assert status == _verify.DIFFERS
    assert "step 3 of 3: the first run ends a step where the other has ended" in report
    assert "ran out of memory 1 time;" in report


@pytest.mark.parametrize("change", [{"weights": {2: "BAD"}}, {"steps": 2}])
def test_the_job_differs_from_itself(script, verify, change):
    script.change(2, **change)
    status, report = verify()
    assert status == _verify.UNSTABLE and len(script.tasks) == 2
    assert report.startswith("the job differs from itself") and "seed" in report


@pytest.mark.parametrize("run, change, words", [
    (1, {"status": 5}, ["fails without Tidepool (plain): it exits with status 5"]),
    (1, {"status": -11}, ["it is killed by SIGSEGV"]),
    (1, {"steps": 0}, ["never called an optimizer's step"]),
    (1, {"started": False}, ["no process of the job imported PyTorch"]),
    (2, {"status": 1, "steps": 1}, ["plain again", "checkpoints?", "| what the job printed"]),
    (3, {"attached": False}, ["did not attach"]),
    (3, {"status": 1, "steps": 2, "out_of_memory": 1},
     ["out of memory: under the budget of 1GiB the job exits with status 1", "before that: 2 of"]),
    (3, {"status": 1, "steps": 0, "lacked": True}, ["out of memory: ", "before that: 0 of 3"]),
    (3, {"status": -6, "steps": 1, "printed": b"terminate called: c10::OutOfMemoryError\n"},
     ["out of memory: under the budget of 1GiB the job is killed by SIGABRT"]),
    (3, {"status": -9, "steps": 2}, ["killed by SIGKILL"]),
    (2, {"broken": "KeyError: 1"}, ["recording the run plain again failed: KeyError: 1"]),
])
def test_it_could_not_run(script, verify, run, change, words):
    script.change(run, **change)
    status, report = verify()
    assert status == _verify.COULD_NOT_RUN and report.startswith("could not run: ")
    assert len(script.tasks) == run
    for word in words:
        assert word in report


def test_an_end_that_only_tidepool_brings_is_a_difference(script, verify):
    script.change(3, status=-11, steps=2)
    status, report = verify()
    assert status == _verify.DIFFERS
    assert "with Tidepool it is killed by SIGSEGV; steps that are the same before that: 2" in report
    assert [(task.steps, task.watch) for task in script.tasks[3:]] == [(3, 2), (3, 2), (3, 1),
                                                                       (3, 1)]


def test_progress_goes_to_standard_error(script, capsys):
    script.change(3, steps=1, status=-9)
    _verify.main(["job"], {"TIDEPOOL_BUDGET": "1GiB"}, None)
    said = capsys.readouterr().err.splitlines()
    assert [line.removeprefix("tidepool verify: ") for line in said] == [
        "run 1 of 3, plain", "run 1 of 3, plain: 3 steps in 0 s",
        "run 2 of 3, plain again", "run 2 of 3, plain again: 3 steps in 0 s",
        "run 3 of 3, with Tidepool", "run 3 of 3, with Tidepool: 1 step in 0 s"]


def test_where_it_ends_is_looked_for(script, verify):
    script.change(3, status=1, steps=2)
    script.change(5, status=1, steps=2, relu="unreadable (Tensor: RuntimeError)", made_in=2)
    script.change(4, made_in=2)
    status, report = verify()
    assert status == _verify.DIFFERS and len(script.tasks) == 5
    assert ("before that: 2 of 3\n  operator: aten::relu (call 1 of step 2): what it made cannot "
            "be restored where aten::mm (call 1 of step 3) reads it") in report


def test_what_tidepool_noticed_is_named_where_watching_finds_nothing(script, verify):
    script.change(3, weights={2: "BAD"}, restored={2: {"aten::mm": 1, "aten::mul": 2},
                                                   3: {"aten::mm": 7}})
    report = verify()[1]
    assert ("operator: not found: with its operators watched the job did not differ; without that, "
            "contents made by these came back otherwise than they were evicted: aten::mm (1 time), "
            "aten::mul (2 times)") in report


def test_an_error_of_its_own_is_no_verdict(script, verify, monkeypatch):
    monkeypatch.setattr(_verify, "_same", lambda *_: 1 // 0)
    status, report = verify()
    assert status == _verify.COULD_NOT_RUN and "an error in verify itself" in report


@pytest.mark.parametrize("command, words", [("no-such-thing", "command not found: no-such-thing"),
                                            ("/etc/passwd", "cannot start /etc/passwd")])
def test_commands_that_do_not_start(command, words, capfd):
    assert _verify.main([command], dict(os.environ), None) == _verify.COULD_NOT_RUN
    assert words in capfd.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_job_too(number, tmp_path):
    job = ("import os, signal, sys, time\n"
           "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
           f"open({str(tmp_path / 'up')!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    code = ("import os, sys; from tidepool.verify import _runs, _verify; "
            f"_runs._SECONDS_TO_DIE = 1; sys.exit(_verify.main([sys.executable, '-c', {job!r}], "
            "dict(os.environ), None))")
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(
                                   _verify.Path(_verify.__file__).parents[2])})
    while not (tmp_path / "up").exists() or not (tmp_path / "up").read_text():
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert f"interrupted by {number.name}" in errors
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "up").read_text()), 0)
