"""Progress of a run: which lines, when, and from which steps."""

import pytest
from tidepool.verify import _progress, _step_log
from tidepool.verify._json_lines import JsonLines


@pytest.fixture
def run(tmp_path):
    """A run under way: its progress, a clock to set, what was said, and a log to write."""
    class Run:
        now, said = 100.0, []
        log = JsonLines(tmp_path / f"process_0{_step_log.SUFFIX}")

        def __init__(self):
            self.progress = _progress.Progress("run 2 of 3", tmp_path, 30, self.said.append,
                                               lambda: self.now)

        def step(self, number):
            self.log.write({"kind": "loss", "step": number, "fingerprints": []})
            self.log.write({"kind": "parameter", "step": number, "fingerprints": ["x"]})

    return Run()


def test_lines_come_ever_more_rarely(run):
    times = []
    for _ in range(400):
        run.now += 1
        before = len(run.said)
        run.progress.look()
        times += [run.now - 100] * (len(run.said) - before)
    assert times == [10, 30, 70, 150, 270, 390]
    assert run.said[1] == "run 2 of 3: 0 of 30 steps after 30 s"


def test_steps_are_those_that_the_logs_have_by_then(run, tmp_path):
    run.step(1)
    other = JsonLines(tmp_path / f"process_1{_step_log.SUFFIX}")
    for step in range(1, 8):
        other.write({"kind": "parameter", "step": step, "fingerprints": []})
    with open(other.path, "a") as file:
        file.write('{"kind":"parameter","st')  # under way
    run.now += 10
    run.progress.look()
    with open(other.path, "a") as file:
        file.write('ep":8,"fingerprints":[]}\n')
    run.progress.finish()
    assert run.said == ["run 2 of 3: 7 of 30 steps after 10 s", "run 2 of 3: 8 steps in 10 s"]
