"""However long a job runs, the process's memory and its lineage stay flat, and values right.

The largest sample of the second half is compared with the largest one of the first (after a tenth
as warm-up): lineage grows and is cut in waves.
"""

import pytest
from limits_support import run_attached, run_job
from selection import FULL

BUDGET = "256MiB"
RESIDENT_KIB_TOLERANCE = 2048  # Python's and malloc's own unrest
# A wave of lineage is a few hundred records; samples may meet it at any height.
TOLERANCES = {"resident_kib": RESIDENT_KIB_TOLERANCE, "values": 300, "records": 300,
              "storages": 100, "lineage_bytes": 300 << 10}
RECORD_LIMIT = 10_000
LEAVES = 100_000 if FULL else 40_000


def assert_flat(samples: list[dict]) -> None:
    """Check that no later sample is above the earlier ones, by more than the tolerances."""
    warm = samples[len(samples) // 10:]
    early, late = warm[:len(warm) // 2], warm[len(warm) // 2:]
    assert early and late
    for key, tolerance in TOLERANCES.items():
        before, after = (max(s[key] for s in half) for half in (early, late))
        assert after <= before + tolerance, f"{key} grew from {before} to {after}"


def check(name: str, steps: int, **environ: str) -> list[dict]:
    """Run a job with and without Tidepool, compare the values, and return the samples."""
    ours = run_attached(BUDGET, "limit_jobs.py", name, str(steps), **environ)
    assert ours["digest"] == run_job("limit_jobs.py", name, str(steps))["digest"]
    assert ours["evicted"] > 0
    assert any(s["records"] > 0 for s in ours["samples"])
    return ours["samples"]


@pytest.mark.parametrize(("name", "steps"), [
    # Of what leaks 32 bytes an operator, 2 MiB have gathered in half of these.
    ("multiply", 300_000),
    ("total", 100_000),
    ("sgd", 4_000),
    pytest.param("adam", 10_000, marks=pytest.mark.skipif(
        not FULL, reason="half a minute; runs with --full")),
])
def test_flat(name: str, steps: int) -> None:
    samples = check(name, steps)
    assert len(samples) >= 40
    assert_flat(samples)
    # A chain is cut at a depth of 128, versions at 32; a training step has some 60 operators and
    # its lineage lives for a few steps.
    assert max(s["records"] for s in samples) < 2_000


def test_wide_trees_leave_nothing_behind() -> None:
    *between, last = check("forest", LEAVES)
    first, *others = between
    assert len(others) == 2
    assert first["records"] < 100 < LEAVES <= last["records"]
    for key, tolerance in TOLERANCES.items():
        assert max(s[key] for s in others) <= first[key] + tolerance, key
    assert last["resident_kib"] <= first["resident_kib"] + RESIDENT_KIB_TOLERANCE


def test_wide_tree_keeps_to_the_limit_of_records() -> None:
    samples = check("tree", LEAVES, TIDEPOOL_LIMIT_RECORDS=str(RECORD_LIMIT))
    assert max(s["records"] for s in samples) <= RECORD_LIMIT + 1
    assert_flat(samples)
