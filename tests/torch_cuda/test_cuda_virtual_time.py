"""A job in virtual time: its steps repeat themselves, and take as long as its simulation says."""

import json
import statistics
import subprocess
from pathlib import Path

import pytest
from tidepool.job import _plugin

REPLAY = _plugin.LIBRARY_FOLDER / "tidepool-replay"
LINK = 450  # GB/s each way
# What calls take the host and their streams, in nanoseconds; a page that moves takes 74 us.
PRICES = ("launch:3000+60000,copy:2000+10000,event_record:300,event_query:300,stream_wait:300,"
          "create:29000,map:2000,access:38000,unmap:34000,release:23000")
DEVICE = {"memory": "8GiB", "touch": False, "clock": True, "price": PRICES,
          "speed": f"link:{LINK},memory:1000,threads:20"}
ENVIRON = (("CUBLAS_WORKSPACE_CONFIG", ":16:8"), ("TIDEPOOL_PLANNING", "off"))


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("traces") / "job.jsonl.gz"


@pytest.fixture(scope="module")
def ample(jobs, trace) -> dict:
    recorded = (("TIDEPOOL_TRACE", str(trace)), ("TIDEPOOL_TRACE_STEPS", "4:4"))
    return jobs.json("timed_job.py", "4", budget="6GiB", environ=(*ENVIRON, *recorded), **DEVICE)


def test_steps_repeat_themselves(ample):
    """But for the events by which some operators are timed, which take the host 0.3 us each."""
    third, fourth = (step["ns"] for step in ample["steps"][2:])
    assert third == pytest.approx(fourth, rel=0.005)
    assert all(step["stalled_ns"] == 0 for step in ample["steps"])


def test_a_step_takes_as_long_as_its_simulation(jobs, ample, trace):
    """At r = 0.5, with copies to the host's memory beside operators."""
    budget = (ample["fixed"] + ample["allocated_peak"]) // 2
    found = jobs.json("timed_job.py", "6", budget=str(budget),
                      environ=(*ENVIRON, ("TIDEPOOL_OFFLOAD", "host:4GiB")), **DEVICE)
    done = subprocess.run([str(REPLAY), str(trace), "--json", "--budget", str(budget), "--tier",
                           f"4GiB@{LINK}", "--beside", "yes", "--policy", "planned", "--search",
                           "0", "--iterations", "6"], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    simulated = json.loads(done.stdout)
    assert found["tidepool"][-1]["fetched_bytes"] > 0
    # Steps differ a little, because what leaves in one need not come back in the same one.
    usual = statistics.median(step["ns"] for step in found["steps"][-3:])
    plain = ample["steps"][-1]["ns"]
    assert 1.03 * plain < usual == pytest.approx(simulated["compute_ns"], rel=0.1)
    # The device never waits longer for copies than a step has lost.
    assert all(step["stalled_ns"] <= step["ns"] - plain for step in found["steps"])
