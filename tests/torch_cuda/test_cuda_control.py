"""Budgets of CUDA devices change while a job runs."""

MIB = 1 << 20


def test_a_budget_holds_when_the_call_returns(jobs):
    found = jobs.json("limit_job.py", budget="64MiB", memory="8GiB")
    assert "no memory of a device has been asked for yet" in found["unused"]
    assert found["before"] > 40 * MIB
    assert found["allowed"] == 16 * MIB and 12 * MIB < found["after"] <= 16 * MIB
    assert "OutOfMemoryError" in found["too_small"] and "cannot be evicted" in found["too_small"]
    assert 8 * MIB <= found["kept"] <= 16 * MIB and found["same"]
    assert found["in_block"] <= 8 * MIB and "OutOfMemoryError" in found["refused"]
    assert "a graph is being captured" in found["captured"]
    assert found["kept_in_block"] == [0, 8]
    assert found["both"] == [False, False, False, True]
    assert found["restored"] <= 16 * MIB and found["misuses"] == []
