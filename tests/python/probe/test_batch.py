"""The largest batch: found exactly, and with few runs where the prediction is good."""

import pytest
from tidepool.probe import _batch
from tidepool.probe._simulation import Point
from tidepool.verify import _runs


@pytest.mark.parametrize("limit", [1, 7, 63, 99, 100, 101, 128, 140, 511, 512, 600])
def test_the_largest_is_exact_whatever_the_guess(limit):
    for guess in (8, 100, 512):
        tried = []

        def fits(size, tried=tried):
            tried.append(size)
            return size <= limit

        found = _batch.largest(fits, guess, 8, 512)
        assert found == (None if limit < 8 else min(limit, 512))
        assert len(tried) == len(set(tried)) <= 20


def test_a_good_guess_needs_few_runs():
    tried = []
    assert _batch.largest(lambda size: tried.append(size) or size <= 100, 100, 8, 512) == 100
    assert tried == [100, 101]


class Runs:
    """Stands in for a probe: a job that needs 1000 bytes, and 10 for each sample."""

    command = ("train", "--batch=@")

    def __init__(self, status=1, lacked=True):
        self.result, self.recorded, self.status, self.lacked = {}, [], status, lacked

    def record(self, command):
        size = int(command[1].removeprefix("--batch="))
        self.recorded.append(size)
        return Simulated(1000 + 10 * size)

    def under(self, budget, name, command):
        fits = 1000 + 10 * int(command[1].removeprefix("--batch=")) <= budget
        return Ended(fits, not fits and self.lacked)


class Ended:
    def __init__(self, ended_well, lacked_memory):
        self.ended_well, self.lacked_memory = ended_well, lacked_memory

    def how_it_ended(self):
        return "exits with status 1"

    def tail(self):
        return ""


class Simulated:
    def __init__(self, needs):
        self.needs, self.peak_bytes, self.points = needs, 2 * needs, {}

    def at(self, budgets):
        for budget in budgets:
            self.points[budget] = Point(budget, budget >= self.needs)
        return [self.points[budget] for budget in budgets]


def test_larger_sizes_are_recorded_until_the_prediction_is_near():
    runs = Runs()
    assert _batch.BatchProbe(runs, _batch.Batches("@", 8, 4096), 11_000).run()
    assert runs.result["largest"] == 1000 and runs.result["command"] == ["train", "--batch=1000"]
    assert runs.recorded[:2] == [8, 16] and 500 <= runs.recorded[-1] <= 1100
    text = _batch.report(runs.result)
    assert "largest batch: 1000" in text
    assert text.endswith("tidepool run --budget 11000 -- train --batch=1000")


def test_one_size_is_only_tried():
    runs = Runs()
    assert not _batch.BatchProbe(runs, _batch.Batches("@", 8, 8), 1000).run()
    assert runs.recorded == [] and runs.result["tried"] == {"8": False}
    assert _batch.report(runs.result).endswith("no batch fits 1000")


def test_a_job_that_fails_by_itself_does_not_count_as_short_of_memory():
    probe = _batch.BatchProbe(Runs(lacked=False), _batch.Batches("@", 8, 8), 1000)
    with pytest.raises(_runs.CouldNotRun, match="with a batch of 8 the job exits with status 1"):
        probe.run()
