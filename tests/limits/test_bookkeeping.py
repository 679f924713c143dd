"""What Tidepool keeps for lineage is counted whole, and keeps to its limit."""

import functools

import pytest
from bookkeeping_job import DROPOUTS, RECORDS
from limits_support import run_attached, run_job

BUDGET = "1GiB"
LIMIT_BYTES = 4 << 20
TENSOR_BYTES = 350  # what each living tensor takes, without lineage; with chaos' fingerprints


def test_bookkeeping_is_what_malloc_says() -> None:
    found = run_attached(BUDGET, "bookkeeping_job.py", "malloc")
    assert found["records"] == RECORDS
    assert found["bookkeeping"] == pytest.approx(found["malloc"], rel=0.25)


def test_records_that_draw_share_their_states() -> None:
    found = run_attached(BUDGET, "bookkeeping_job.py", "states")
    assert found["records"] == RECORDS
    # A table of a twister alone has 2.5 KB; sixteen draws are one in 39 of those to a refill.
    assert found["bookkeeping"] / RECORDS < 1000


@functools.cache
def plain_digest() -> str:
    """Return the digest of the same loop without Tidepool."""
    return run_job("bookkeeping_job.py", "dropouts")["digest"]


@pytest.mark.parametrize("chaos", ["none", "op"])
def test_draws_that_stay_alive_keep_to_the_limit(chaos: str) -> None:
    found = run_attached(BUDGET, "bookkeeping_job.py", "dropouts",
                         TIDEPOOL_LIMIT_BOOKKEEPING=str(LIMIT_BYTES), TIDEPOOL_CHAOS=chaos)
    # Under chaos nothing resident has lineage to give up; what is new gets none.
    tensors = 0 if chaos == "none" else 2 * DROPOUTS * TENSOR_BYTES
    assert max(found["samples"]) <= LIMIT_BYTES + tensors
    assert found["samples"][-1] > LIMIT_BYTES / 2
    assert found["roots"] > 0
    assert found["digest"] == plain_digest()
