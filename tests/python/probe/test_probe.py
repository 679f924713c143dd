"""`tidepool probe` on made-up runs: what is run, recommended, proved and printed."""

import json
import os
from pathlib import Path

import pytest
from tidepool.doctor import _transfers
from tidepool.probe import _probe
from tidepool.probe._simulation import Point
from tidepool.settings import _offload, _sizes
from tidepool.verify import _recorder, _runs, _step_log
from tidepool.verify._json_lines import JsonLines

MIB = 2**20


class Script:
    """Stands in for running a job that needs so many bytes at least, and for simulations of it."""

    peak_bytes = 1000 * MIB

    def __init__(self) -> None:
        self.needs = self.simulated_needs = 400 * MIB
        self.steps, self.status, self.weights = 100, 0, "w"
        self.runs: list[tuple[_recorder.Task, dict]] = []
        self.points: dict[int, Point] = {}

    def run_job(self, command, environ, output, progress) -> int:
        task = _recorder.Task.from_variable(environ[_recorder.VARIABLE])
        self.runs.append((task, environ))
        budget = int(environ.get("TIDEPOOL_BUDGET", "4096MiB").removesuffix("MiB")) * MIB
        lacked = budget < self.needs
        log = JsonLines(Path(task.folder, f"process_0{_step_log.SUFFIX}"))
        log.write({"kind": "process", "attached": "TIDEPOOL_BUDGET" in environ
                   or "TIDEPOOL_TRACE" in environ})
        steps = min(self.steps, task.steps)
        slow = 1.25 if "TIDEPOOL_BUDGET" in environ else 1
        for step in range(1, 1 if lacked else steps + 1):
            weights = self.weights if "TIDEPOOL_BUDGET" in environ else "w"
            log.write({"kind": "parameter", "step": step, "optimizer": 0,
                       "fingerprints": [weights]})
            log.write({"kind": "time", "step": step, "wall_ns": 7,
                       "processor_ns": int(1000 * slow)})
        log.write({"kind": "end", "reason": "exit", "evictions": 5, "replays": 2,
                   "out_of_memory": int(lacked)})
        if "TIDEPOOL_STATS" in environ:
            peak = {"reserved_peak_bytes": budget - MIB}
            Path(environ["TIDEPOOL_STATS"]).write_text(
                json.dumps({"pid": 1, "devices": {"cpu": peak}}))
        return 1 if lacked else self.status

    def simulate(self, traces, steps, progress, link):
        self.simulated_steps, self.link = steps, link
        return self

    def at(self, budgets):
        for budget in budgets:
            runs = budget >= self.simulated_needs
            self.points[budget] = Point(budget, runs, 0.5 + 500 * MIB / budget if runs else None)
        return [self.points[budget] for budget in budgets]


@pytest.fixture
def script(monkeypatch):
    made = Script()
    monkeypatch.setattr(_runs, "run_job", made.run_job)
    monkeypatch.setattr(_probe, "Simulation", made.simulate)
    return made


@pytest.fixture
def probe(capsys):
    def run(as_json=True, **wish):
        def make_environ(**settings):
            return {"PATH": "/bin", **{f"TIDEPOOL_{key.upper()}": value
                                       for key, value in settings.items()}}

        status = _probe.main(["python", "a b.py"], make_environ, _probe.Wish(**wish), as_json)
        out = capsys.readouterr().out
        return status, json.loads(out) if as_json else out
    return run


def test_a_budget_is_recommended_and_proved(script, probe):
    status, result = probe()
    assert status == _probe.PROVED
    assert result["peak_bytes"] == script.peak_bytes
    assert 400 * MIB <= result["least"]["budget_bytes"] < 411 * MIB
    recommended = result["recommended"]["budget_bytes"]
    assert 833 * MIB < recommended < 845 * MIB and recommended % MIB == 0  # 10 % slower
    proof = result["proof"]
    assert proof["proved"] and proof["budget_bytes"] == recommended and proof["raised"] == 0
    assert (proof["steps"], proof["difference"]) == (8, None)
    assert proof["slowdown"] == pytest.approx(0.25)
    tasks = [task for task, _ in script.runs]
    assert [(task.steps, task.compare) for task in tasks] == [(3, False), (8, True), (8, True)]
    assert script.simulated_steps == 2
    recorded, plain, proved = (environ for _, environ in script.runs)
    assert recorded["TIDEPOOL_TRACE_STEPS"] == "2:3"
    assert [key for key in plain if key.startswith("TIDEPOOL")] == ["TIDEPOOL_VERIFY"]
    assert proved["TIDEPOOL_PLANNING"] == "wait"


def test_the_report_has_a_table_and_the_command(script, probe):
    status, text = probe(as_json=False, memory_bytes=500 * MIB)
    assert status == _probe.PROVED
    assert "peak without a budget: 1000 MiB, in steps 2 to 3\n" in text
    assert "\n 500 MiB     50 %       +50.0 %          0        0  recommended\n" in text
    assert " 300 MiB     30 %  does not run" in text and "the least that runs" in text
    assert ("proved: 8 steps with the same bits, peak 499 MiB, 5 evictions, measured +25.0 % "
            "time") in text
    assert text.endswith("  tidepool run --budget 500MiB -- python 'a b.py'\n")


def test_memory_that_does_not_do_is_no_recommendation(script, probe):
    status, result = probe(memory_bytes=300 * MIB)
    assert (status, result["recommended"]) == (_probe.NOT_FOUND, None)
    assert len(script.runs) == 1  # nothing to prove
    assert "the least that runs is" in probe(as_json=False, memory_bytes=300 * MIB)[1]


def test_a_budget_that_is_too_small_after_all_is_raised(script, probe):
    script.needs = 860 * MIB
    status, result = probe()
    assert status == _probe.PROVED and result["proof"]["raised"] == 2
    assert 860 * MIB <= result["proof"]["budget_bytes"] < 880 * MIB
    script.needs = 2000 * MIB
    status, result = probe()
    assert status == _probe.NOT_FOUND and result["proof"]["out_of_memory"]
    assert "not proved: the job ran out of memory" in probe(as_json=False)[1]


def test_memory_that_was_given_is_not_exceeded(script, probe):
    script.needs = 860 * MIB
    status, result = probe(memory_bytes=850 * MIB)
    assert status == _probe.NOT_FOUND and result["proof"]["budget_bytes"] == 850 * MIB


def test_what_is_offloaded_is_simulated_at_the_speed_measured(script, probe, monkeypatch):
    speed = _transfers.Speed(out=1e9, back=3e9)
    monkeypatch.setattr(_transfers, "file_speed", lambda folder: speed)
    tier = _offload.FileTier("/a b", 3 * MIB + 1)
    script.needs = 250 * MIB  # a simulation may not see which tensors are of a list
    status, text = probe(as_json=False, memory_bytes=300 * MIB, offload=tier)
    assert script.link.options() == ["--tier", f"{3 * MIB + 1}@1.5000", "--beside", "no"]
    assert status == _probe.PROVED
    assert "recommended: 300 MiB, which does not run in simulation" in text
    assert text.endswith("  tidepool run --budget 300MiB --offload 'file:/a b:3145729' -- python "
                         "'a b.py'\n")

    def fails(folder):
        raise _transfers.CannotMeasure("the disk is full")

    monkeypatch.setattr(_transfers, "file_speed", fails)
    status, result = probe(memory_bytes=300 * MIB, offload=tier)
    assert status == _probe.COULD_NOT_RUN and "the disk is full" in result["problem"]


def test_other_bits_are_no_proof(script, probe):
    script.weights = "other"
    status, result = probe()
    assert status == _probe.NOT_FOUND and result["proof"]["difference"].startswith("step 1: ")
    assert "differs from a plain run at step 1" in probe(as_json=False)[1]


def test_a_job_of_one_step_is_recorded_from_it(script, probe):
    script.steps = 1
    status, result = probe()
    assert status == _probe.PROVED and script.simulated_steps == 1
    assert [environ.get("TIDEPOOL_TRACE_STEPS") for _, environ in script.runs] == [
        "2:3", "1", None, None]
    assert (result["first_step"], result["proof"]["slowdown"]) == (1, None)


def test_a_job_that_fails_is_no_answer(script, probe):
    script.status = 3
    status, result = probe()
    assert status == _probe.COULD_NOT_RUN
    assert result["problem"].startswith("the job fails (recorded): it exits with status 3")


def test_an_interruption_keeps_what_is_known(script, probe, monkeypatch):
    run_job = script.run_job

    def interrupted(command, environ, output, progress):
        if len(script.runs) == 2:
            raise _runs.Interrupted(2)
        return run_job(command, environ, output, progress)

    monkeypatch.setattr(_runs, "run_job", interrupted)
    status, text = probe(as_json=False)
    assert status == 130
    assert "recommended" in text and text.endswith("not proved yet\n")


def test_progress_of_simulations_is_said_in_place_or_once():
    class Stream:
        text, terminal = "", True

        def write(self, text):
            self.text += text

        def flush(self):
            pass

        def isatty(self):
            return self.terminal

    now, said, stream = [0.0], [], Stream()
    progress = _probe.SimulationProgress(said.append, lambda: now[0], stream)
    now[0] = 3.0
    progress.note(1, 4)
    assert stream.text.endswith("1 of 4 budgets simulated, about 9 s left") and not said
    stream.terminal = False
    progress.note(4, 4)
    assert said == ["4 budgets simulated in 3 s"]


@pytest.mark.parametrize("budget, text", [(500 * MIB, "500MiB"), (200 * MIB + 1, "201MiB"),
                                          (20 * MIB + 1, "20544KiB"), (1001, "1001")])
def test_budgets_are_easy_to_write(budget, text):
    rounded = _probe.round_up(budget)
    assert budget <= rounded <= budget * 1.01 and _sizes.as_argument(rounded) == text
    assert os.path.basename(text) == text


@pytest.mark.parametrize(("changed", "said"), [
    ({"ended_well": False}, "ends well by itself, but not under this budget"),
    ({"peak_bytes": 5 << 20}, "not proved: it held 5 MiB"),
    ({"peak_bytes": 0}, "no process of the job said how much memory it held"),
])
def test_why_a_budget_is_not_proved(changed, said):
    proof = {"raised": 0, "proved": False, "out_of_memory": False, "difference": None,
             "ended_well": True, "budget_bytes": 4 << 20, "peak_bytes": 1 << 20} | changed
    lines = _probe._recommendation({"recommended": {"budget_bytes": 4 << 20, "overhead": 1.1},
                                    "proof": proof, "command": ["train"]})
    assert said in lines[1]
