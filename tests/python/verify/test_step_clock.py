"""Step times leave out what passes while the clock is paused."""

from tidepool.verify import _step_clock


def test_paused_time_is_in_no_step(monkeypatch):
    now = [0, 0]
    monkeypatch.setattr(_step_clock, "_now", lambda: tuple(now))

    def spend(wall, processor):
        now[0] += wall
        now[1] += processor

    clock = _step_clock.StepClock()
    spend(100, 90)
    with clock.paused():
        spend(5000, 5000)
    spend(10, 9)
    with clock.paused():
        spend(7000, 7000)
        assert clock.lap() == {"wall_ns": 110, "processor_ns": 99}
        spend(7000, 7000)
    spend(1, 2)
    with clock.paused():
        assert clock.lap() == {"wall_ns": 1, "processor_ns": 2}
