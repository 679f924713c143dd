"""The sweep over prices runs, and its rows compare what they say they compare."""

import importlib
import sys

import pytest
from limits_support import ROOT

sys.path[:0] = [str(ROOT / "bench")]

prices = importlib.import_module("prices")


def test_on_one_network(tmp_path):
    table, plot = tmp_path / "prices.md", tmp_path / "prices.svg"
    assert prices.main(["--smoke", "--markdown", str(table), "--svg", str(plot)]) == 0
    rows = [line.split("|")[1:-1] for line in table.read_text().splitlines()
            if line.startswith("| 2 |")]
    assert len(rows) == 4
    # Prices of pages change what pages cost, and nothing of windows and moves.
    windows, moves, pages = ({row[k].strip() for row in rows} for k in (4, 5, 6))
    assert len(windows) == len(moves) == 1
    assert len(pages) > 1
    assert plot.read_text().startswith("<svg")


def test_what_is_above_the_best_way_alone_is_found():
    row = {"windows": 1.5, "moves": 1.2, "pages": 2.0, "all": 1.26}
    assert prices.excess(row) == pytest.approx(0.05)
    dear, cheap = (prices.Prices(us, 0, 1000, 2) for us in (75, 0))
    rows = {(dear, "gpt", 0.5): row, (cheap, "gpt", 0.5): row | {"all": 1.0}}
    (found,) = [line for line in prices.worst(rows, 5) if line.startswith("| gpt")]
    assert "+5.0%" in found and "| 75 |" in found
    # A slab has no pages that move: it is run once for all their prices.
    asked = {prices.Point("gpt", 0.5, "windows", each, "arena").asked()
             for each in (dear, cheap)}
    assert len(asked) == 1
    # In whole pages it is run for each.
    asked = {prices.Point("gpt", 0.5, "windows", each, "pages").asked() for each in (dear, cheap)}
    assert len(asked) == 2
