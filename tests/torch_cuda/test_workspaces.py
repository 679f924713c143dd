"""Workspaces that PyTorch keeps for cuBLAS lie apart from all else, whenever they are asked for.

PyTorch 2.15 keeps cuBLAS's workspaces only where it is asked to; 2.11 always does.
"""

import pytest
import torch

pytestmark = pytest.mark.torch_floor

DEVICE = {"memory": "8GiB", "granularity": "64KiB"}
PAGE = 64 << 10
WORKSPACE = 96 << 10  # one and a half pages
STREAMS = 8
BUDGET = 128 * PAGE
SMALL = ("CUBLAS_WORKSPACE_CONFIG", ":96:1")
KEPT = (SMALL, ("TORCH_CUBLAS_WORKSPACE_CACHE", "1"))


def late_products(jobs, environ) -> tuple[dict, dict]:
    """Return what a run without Tidepool found, and one under the budget."""
    options = {"environ": environ, **DEVICE}
    return (jobs.json("workspace_jobs.py", **options),
            jobs.json("workspace_jobs.py", budget=str(BUDGET), **options))


def test_workspaces_asked_for_under_a_full_budget_lie_together(jobs):
    plain, ours = late_products(jobs, KEPT)
    assert ours["prints"] == plain["prints"]
    assert ours["tidepool"]["evictions"] > 50
    assert ours["tidepool"]["workspace_bytes"] == STREAMS * WORKSPACE
    assert len(plain["places"]) == STREAMS
    places = ours["places"]
    assert places == list(range(places[0], places[0] + STREAMS * WORKSPACE, WORKSPACE))
    # Nothing else is lost to them.
    assert ours["largest_pages"] == BUDGET // PAGE - STREAMS * WORKSPACE // PAGE
    assert ours["used_peak"] <= BUDGET
    assert ours["races"] == ours["misuses"] == []


@pytest.mark.skipif(torch.__version__.startswith("2.11."), reason="workspaces are always kept")
def test_workspaces_that_are_not_kept_leave_all_room_to_others(jobs):
    plain, ours = late_products(jobs, (SMALL,))
    assert ours["prints"] == plain["prints"]
    assert ours["tidepool"]["workspace_bytes"] == 0
    assert ours["places"] == plain["places"] == []
    assert ours["largest_pages"] == BUDGET // PAGE
    assert ours["races"] == ours["misuses"] == []
