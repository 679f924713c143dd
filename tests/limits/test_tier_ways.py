"""The table of ways to leave memory runs, and finds where the choice is not the best."""

import argparse
import importlib
import sys

import pytest
from limits_support import ROOT

sys.path[:0] = [str(ROOT / "bench")]

tier_ways = importlib.import_module("tier_ways")


def test_on_one_network(tmp_path):
    table = tmp_path / "tier.md"
    assert tier_ways.main(["--smoke", "--markdown", str(table)]) == 0
    lines = table.read_text().splitlines()
    (cells,) = [line.split("|")[2:-2] for line in lines if line.startswith("| 0.3 |")]
    overheads = [float(cell.split("(")[0]) for cell in cells[1:]]
    assert len(set(overheads)) == len(tier_ways.WAYS)  # each way does something else
    assert all(1 < each <= tier_ways.FAILED for each in overheads)
    (least,) = [line.split("|")[2:-1] for line in lines if line.startswith("| resnet50 |")][-1:]
    assert float(least[1]) < float(least[0])  # a tier lowers the least budget


def test_where_the_choice_is_not_the_best():
    points = {way: tier_ways.Point("gpt", 0.5, 12, way) for way in tier_ways.WAYS}
    overheads = {"recomputing": 1.2, "copying": None, "delta": 1.5, "both": 1.26}
    rows = tier_ways.rows_of({points[way]: overheads[way] for way in tier_ways.WAYS})
    (row,) = rows.values()
    assert row["copying"] == tier_ways.FAILED
    assert tier_ways.excess(row) == pytest.approx(0.05)
    assert [line for line in tier_ways.worst(rows, 5) if "| gpt | 0.5 | 12 |" in line]
    assert "at 0 of 1 points" in tier_ways.verdict(rows, 12)
    # What all fail says nothing; recomputing is run once for all links.
    assert not tier_ways.rows_of(dict.fromkeys(points.values()))
    assert tier_ways.Point("gpt", 0.5, 25, "recomputing").asked() == points["recomputing"].asked()


def test_points_where_the_choice_is_not_the_best_are_run_by_plans(monkeypatch):
    points = {way: tier_ways.Point("gpt", 0.5, 12, way) for way in tier_ways.WAYS}
    overheads = {"recomputing": 1.2, "copying": None, "delta": 1.5, "both": 1.26}
    rows = tier_ways.rows_of({points[way]: overheads[way] for way in tier_ways.WAYS})
    asked = []
    monkeypatch.setattr(tier_ways, "overhead", lambda point, _: asked.append(point) or 1.1)
    tier_ways.add_plans(rows, argparse.Namespace(jobs=1))
    assert asked == [tier_ways.Point("gpt", 0.5, 12, tier_ways.PLANNED)]
    assert "By a plan 0 of these 1 points are." in tier_ways.verdict(rows, 12)
    assert "| 1.260 | 1.100 | +5.0% |" in list(tier_ways.worst(rows, 5))[-1]
