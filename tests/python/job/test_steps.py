"""Steps end where an optimizer's does, or where the job says; who listens hears of pressure."""

import types

import pytest
import tidepool
from tidepool.job import _steps

END_STEP, LEAVE = 0, 2


class Plugin:
    def __init__(self):
        self.calls, self.evictions, self.asked = [], 0, 0

    def optimizer_scope(self, what):
        self.calls.append(what)

    def statistics(self):
        self.asked += 1
        one = {"evictions": self.evictions, "evicted_bytes": 10 * self.evictions,
               "replay_ns": 5_000_000_000, "reserved_peak_bytes": 7}
        return {"cuda:0": one, "cuda:1": one | {"reserved_peak_bytes": 9}}


@pytest.fixture
def plugin():
    return Plugin()


@pytest.fixture
def steps(plugin):
    return _steps.Steps(plugin)


def test_once_the_job_names_its_steps_those_of_optimizers_do_not_count(plugin, steps):
    steps.end_by_optimizer()
    steps.end()
    steps.end_by_optimizer()
    assert plugin.calls == [END_STEP, END_STEP, LEAVE]


def test_a_listener_hears_of_each_step_that_evicted(plugin, steps):
    plugin.evictions = 4
    heard = []
    stop = steps.listen(heard.append)
    steps.end_by_optimizer()
    assert heard == []  # what was before is not of this step
    plugin.evictions = 6
    steps.end_by_optimizer()
    steps.end_by_optimizer()
    assert [(each.evictions, each.evicted_bytes, each.replay_ns) for each in heard] == [(4, 40, 0)]
    stop()
    plugin.evictions = 8
    steps.end_by_optimizer()
    assert len(heard) == 1


def test_without_listeners_nothing_is_asked(plugin, steps):
    steps.end()
    steps.listen(print)()
    asked = plugin.asked
    steps.end()
    assert plugin.asked == asked == 1


def test_what_a_listener_raises_reaches_the_job_and_it_may_end_a_step(plugin, steps):
    def listener(pressure):
        steps.end()
        raise KeyError(pressure.evictions)

    steps.listen(listener)
    plugin.evictions = 1
    with pytest.raises(KeyError, match="2"):
        steps.end_by_optimizer()
    assert plugin.calls == [END_STEP, END_STEP]


def test_a_listener_that_ends_steps_hears_of_none_of_its_own(plugin, steps):
    def listener(pressure):
        heard.append(pressure.evictions)
        plugin.evictions += 1
        steps.end()

    heard = []
    steps.listen(listener)
    for _ in range(2):
        plugin.evictions += 1
        steps.end()
    assert heard == [2, 4]  # two devices


def test_metrics_are_sums_and_peaks(plugin, monkeypatch):
    plugin.evictions = 3
    job = types.SimpleNamespace(plugin=plugin)
    monkeypatch.setattr("tidepool.job._job._job", job)
    assert tidepool.metrics() == {
        "tidepool/evictions": 6.0, "tidepool/evicted_bytes": 60.0,
        "tidepool/operators_replayed": 0.0, "tidepool/reserved_peak_bytes": 9.0,
        "tidepool/replay_seconds": 10.0}


def test_without_tidepool_nothing_happens():
    tidepool.step()
    tidepool.on_pressure(print)()
    assert tidepool.metrics() == {}
