"""Calls of the device that fail, each in turn, cost the job an error at most, and no byte.

With the whole net in a budget that makes streams lend each other memory, and with room to spare.
"""

import pytest
from selection import FULL

TIGHT = {"budget": "44MiB", "late": "asked"}
AMPLE = {"budget": "128MiB", "late": 0}
# No workspaces, which would be most of such a small budget.
ENVIRON = (("CUBLAS_WORKSPACE_CONFIG", ":0:0"), ("CUBLASLT_WORKSPACE_SIZE", "0"))
# What PyTorch answers a failure of its own calls with is its own affair.
OURS = ("create", "map", "access", "unmap", "release")
# The usual run refuses launches only where they are captured.
KINDS = () if FULL else (*OURS, "event_create", "event_record", "event_query", "stream_wait",
                         "synchronize", "copy", "fill")


def refusals(jobs, *arguments: str, **knobs) -> dict:
    found = jobs.json("refusal_jobs.py", *arguments, environ=ENVIRON, memory="2GiB", touch=False,
                      **knobs)
    assert [each["problems"] for each in found["kinds"].values() if each["problems"]] == []
    assert found["races"] == []
    assert found["misuses"] == []
    return found["kinds"]


@pytest.mark.parametrize("room", [pytest.param(TIGHT, id="tight"),
                                  *([pytest.param(AMPLE, id="ample")] if FULL else [])])
def test_one_call_fails(jobs, room):
    kinds = refusals(jobs, *KINDS, **room)
    for kind in ("create", "map", "access", "unmap", "event_record", "stream_wait", "synchronize",
                 "copy"):
        assert kinds[kind]["calls"] > 0, kind
    for kind in OURS:  # tried again, with success
        assert set(kinds[kind]["ends"]) == {"well"}, kind


@pytest.mark.long
def test_from_some_call_on_all_fail(jobs):
    kinds = refusals(jobs, "--lasting", *(() if FULL else (*OURS, "event_record")), **TIGHT)
    for kind in ("map", "access"):
        assert set(kinds[kind]["ends"]) == {"OutOfMemoryError"}, kind
    # A device that gives no more from some call on is pressure: late enough, what is held will do.
    assert set(kinds["create"]["ends"]) == {"OutOfMemoryError", "well"}


@pytest.mark.torch_floor
def test_a_call_fails_while_a_graph_is_captured(jobs):
    # A failure of a capture's own calls leaves PyTorch 2.11 in disorder, with or without us.
    kinds = refusals(jobs, "--capture", "malloc", "free", "create", "map", "event_record",
                     "synchronize", "launch", "graph_launch", **AMPLE)
    assert kinds["graph_launch"]["calls"] > 0
    assert kinds["malloc"]["calls"] > 0
