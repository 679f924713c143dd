"""The check of what out-of-memory errors advise runs, and finds nothing that must not be."""

import importlib
import json
import sys

import pytest
from limits_support import ROOT

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "e2e")]

budgets_to_try = importlib.import_module("budgets_to_try")


@pytest.mark.long
def test_on_one_network(tmp_path, capsys):
    out = tmp_path / "rows.json"
    budgets_to_try.main(["--smoke", "--json", str(out)])
    text = capsys.readouterr().out
    (row,) = json.loads(out.read_text())
    assert row["budget"] < row["least"]
    assert row["bound"] > row["budget"]
    assert row["to_try"] >= row["bound"]
    assert row["to_try"] < 1.25 * row["least"]
    assert "1 failures" in text and "Bounds not above what failed: 0" in text


def test_what_must_not_be_is_found():
    good = {"pair": "a:b", "least": 100, "budget": 90, "requested": 10, "bound": 91, "to_try": 99,
            "steps_seen": True, "runs": True, "tries": 1, "reached": 99, "unpinned": 20}
    assert budgets_to_try.Row(**good).problems == []
    assert len(budgets_to_try.Row(**good | {"bound": 90}).problems) == 1
    assert len(budgets_to_try.Row(**good | {"unpinned": 21}).problems) == 1
    assert "Twice the request unpinned: 1." in budgets_to_try.markdown(
        [budgets_to_try.Row(**good | {"unpinned": 21, "to_try": None, "runs": None})])
