"""The table of what is kept in models of libraries, on a network of PyTorch alone."""

import copy
import importlib
import sys

import pytest
from limits_support import ROOT

sys.path[:0] = [str(ROOT / "bench")]

kept_bytes = importlib.import_module("kept_bytes")

MIB = 1 << 20
ROOTS = {"list_write": 0, "partial_write": 10 * MIB, "layout": 0}
SAID = {"losses": "a", "parameters": "b",
        "before": {"allocated": 40 * MIB, "roots": ROOTS},
        "forward": {"allocated": 60 * MIB, "roots": {**ROOTS, "layout": 5 * MIB}},
        "backward": {"allocated": 50 * MIB, "roots": {**ROOTS, "list_write": 10 * MIB}},
        "after": {"allocated": 50 * MIB, "roots": ROOTS}}


@pytest.mark.long
def test_smoke_run_gives_the_same_bits_in_all_ways(tmp_path):
    table = tmp_path / "table.md"
    assert kept_bytes.main(["--smoke", "--out", str(table)]) == 0
    (row,) = [line for line in table.read_text().splitlines() if "torch: encoder" in line]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[-3:] == ["same"] * 3
    assert float(cells[2].removesuffix("%")) > 90
    assert cells[4].startswith("list_write")  # gradients are clipped as a list


def test_shares_are_of_what_was_allocated_between_two_moments():
    assert kept_bytes.grown(SAID, "before", "forward") == {
        "list_write": 0, "partial_write": 0, "layout": 0.25}
    assert kept_bytes.named(kept_bytes.grown(SAID, "before", "forward")) == "layout 25%"
    assert kept_bytes.named({"layout": 0.05}) == "-"


def test_budget_has_room_for_what_lasts_and_a_share_of_activations():
    assert kept_bytes.budget_for(SAID, 0.6) == (50 + 12) * MIB


def test_other_bits_and_failures_are_told_apart():
    other = copy.deepcopy(SAID)
    assert kept_bytes.same(SAID, other) == "same"
    assert kept_bytes.same(SAID, {**other, "losses": "c"}) == "**DIFFERENT**"
    assert kept_bytes.same(SAID, {"error": "RuntimeError: out of memory"}) == "out of memory"
    refused = {"error": "RuntimeError: out of memory", "asked": 10, "unpinned": 20}
    assert kept_bytes.same(SAID, refused) == "out of memory"
    assert "REFUSED" in kept_bytes.same(SAID, {**refused, "unpinned": 21})
    assert kept_bytes.same(SAID, {"error": "KeyError: 'x'"}) == "KeyError: 'x'"
    assert kept_bytes.same(SAID, None) == "not run"
