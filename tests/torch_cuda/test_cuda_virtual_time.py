"""A job in virtual time: its steps repeat themselves, and take as long as its simulation says."""

import json
import statistics
import subprocess
from pathlib import Path

import pytest
from selection import FULL
from tidepool.job import _plugin

REPLAY = _plugin.LIBRARY_FOLDER / "tidepool-replay"
LINK = 450  # GB/s each way
LINKS = (25, 55, 110) if FULL else (55,)  # of which some of what is copied has to be waited for
# What calls take the host and their streams, in nanoseconds; a page that moves takes 74 us.
PRICES = ("launch:3000+60000,copy:2000+10000,event_record:300,event_query:300,stream_wait:300,"
          "create:29000,map:2000,access:38000,unmap:34000,release:23000")
DEVICE = {"memory": "8GiB", "touch": False, "clock": True, "price": PRICES}
OFFLOAD = ("TIDEPOOL_OFFLOAD", "host:4GiB")
ENVIRON = (("CUBLAS_WORKSPACE_CONFIG", ":16:8"), ("TIDEPOOL_PLANNING", "off"))


STEPS = 56
COUNTED = range(12, STEPS)  # by then most of what leaves is copied before


def run(jobs, steps: int, budget: int | str, link: int, *environ: tuple[str, str]) -> dict:
    """Train on a device with a link of so many GB/s each way."""
    return jobs.json("timed_job.py", str(steps), budget=str(budget), environ=(*ENVIRON, *environ),
                     speed=f"link:{link},memory:1000,threads:20", **DEVICE)


def simulate(trace: Path, budget: int, link: int, iterations: int) -> dict:
    """Return what the last of so many simulated steps of the job has cost."""
    done = subprocess.run([str(REPLAY), str(trace), "--json", "--budget", str(budget), "--tier",
                           f"4GiB@{link}", "--beside", "yes", "--policy", "planned", "--search",
                           "0", "--iterations", str(iterations)], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("traces") / "job.jsonl.gz"


@pytest.fixture(scope="module")
def ample(jobs, trace) -> dict:
    return run(jobs, 4, "6GiB", LINK, ("TIDEPOOL_TRACE", str(trace)),
               ("TIDEPOOL_TRACE_STEPS", "4:4"))


def test_steps_repeat_themselves(ample):
    """But for the events by which some operators are timed, which take the host 0.3 us each."""
    third, fourth = (step["ns"] for step in ample["steps"][2:])
    assert third == pytest.approx(fourth, rel=0.005)
    assert all(step["stalled_ns"] == 0 for step in ample["steps"])


def test_a_step_takes_as_long_as_its_simulation(jobs, ample, trace):
    """At r = 0.5, with copies to the host's memory beside operators."""
    budget = (ample["fixed"] + ample["allocated_peak"]) // 2
    found = run(jobs, 6, budget, LINK, OFFLOAD)
    simulated = simulate(trace, budget, LINK, 6)
    assert found["tidepool"][-1]["fetched_bytes"] > 0
    # Steps differ a little, because what leaves in one need not come back in the same one.
    usual = statistics.median(step["ns"] for step in found["steps"][-3:])
    plain = ample["steps"][-1]["ns"]
    assert 1.03 * plain < usual == pytest.approx(simulated["compute_ns"], rel=0.1)
    # The device never waits longer for copies than a step has lost.
    assert all(step["stalled_ns"] <= step["ns"] - plain for step in found["steps"])


def test_copies_over_an_ample_link_are_hidden(jobs, ample):
    """At r = 0.5. Without copies ahead, each copy out would be waited for from its beginning on.

    Which of several neighbours leaves depends on what threads do first, and now and then one is
    read again soon after: in some runs a few steps wait ten times as long as the others.
    """
    budget = (ample["fixed"] + ample["allocated_peak"]) // 2
    found = run(jobs, STEPS, budget, LINK, OFFLOAD)
    before = found["tidepool"][COUNTED[0] - 1]
    counts = {key: found["tidepool"][-1][key] - before[key]
              for key in ("copied_bytes", "fetched_bytes", "written_behind_bytes",
                          "write_behind_wasted_bytes")}
    stalled = [found["steps"][number]["stalled_ns"] for number in COUNTED]
    copying = (counts["copied_bytes"] + counts["fetched_bytes"]) / LINK  # ns, without latencies
    assert counts["fetched_bytes"] > 100 << 20
    assert statistics.median(stalled) < 0.05 * copying / len(COUNTED)
    assert sum(stalled) < 0.1 * copying
    assert counts["written_behind_bytes"] > 0.9 * counts["copied_bytes"]
    assert counts["write_behind_wasted_bytes"] < 0.5 * counts["written_behind_bytes"]


@pytest.mark.parametrize("link", LINKS)
def test_operators_wait_for_copies_as_long_as_in_simulation(jobs, ample, trace, link):
    """Under less than what the job has all the time, so that each step copies more than that.

    Which of several neighbours leaves changes from step to step, in the job, where it depends on
    what threads do first, and in simulation, and what is waited for with it: one step differs from
    the next by a seventh, so that means of six were sometimes a fifth apart.
    """
    budget = 332 << 20
    assert budget < ample["fixed"]
    found = run(jobs, STEPS, budget, link, OFFLOAD)
    assert found["tidepool"][-1]["fetched_bytes"] > 4 * budget
    steps = [simulate(trace, budget, link, number + 1) for number in COUNTED]
    stalled = statistics.mean(found["steps"][number]["stalled_ns"] for number in COUNTED)
    assert stalled == pytest.approx(statistics.mean(step["exposed_ns"] for step in steps), rel=0.2)
    took = statistics.mean(found["steps"][number]["ns"] for number in COUNTED)
    assert took == pytest.approx(statistics.mean(step["compute_ns"] for step in steps), rel=0.1)
