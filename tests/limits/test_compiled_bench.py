"""The table of compiled jobs, on a network that is compiled in seconds."""

import importlib
import sys

import pytest
from limits_support import ROOT

sys.path[:0] = [str(ROOT / "bench")]

compiled_jobs = importlib.import_module("compiled_jobs")

MIB = 1 << 20
SAID = {"losses": "a", "parameters": "b", "ms": [9.0, 2.0, 3.0, 4.0], "peak": 100 * MIB,
        "before": {"allocated": 40 * MIB, "roots": {"compiled": 0}},
        "forward": {"allocated": 60 * MIB, "roots": {"compiled": 5 * MIB}}}


def row_of(way: str, losses: str = "a", **known) -> compiled_jobs.Row:
    rounds = [{compiled_jobs.PLAIN: SAID, 0.7: {**SAID, "ms": [3.0 + number]},
               0.5: {"error": "out of memory"}} for number in range(3)]
    return compiled_jobs.Row("gpt", way, {**SAID, "losses": losses}, SAID, rounds, **known)


def cells_of(row: compiled_jobs.Row, *others: compiled_jobs.Row) -> list[str]:
    lines = compiled_jobs.markdown([row, *others]).splitlines()
    (line,) = [line for line in lines if line.startswith(f"| gpt | {row.way} ")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.long
def test_smoke_run_evicts_blocks_with_the_same_bits(tmp_path):
    table = tmp_path / "table.md"
    assert compiled_jobs.main(["--smoke", "--ways", "blocks", "--markdown", str(table)]) == 0
    cells = table.read_text().splitlines()[-1].strip("|").split("|")
    assert cells[0].strip() == "tiny" and cells[-1].strip() == "same"
    assert float(cells[3]) < float(cells[2])
    assert float(cells[9].strip().removesuffix("%")) > 80


def test_row_compares_steps_of_one_round_and_peaks_of_ways():
    cells = cells_of(row_of("blocks", least=60 * MIB), row_of("whole"))
    assert cells == ["gpt", "blocks", "100.0", "60.0", "60%", "60%", "3", "+33% (+0% to +67%)",
                     "does not run", "75.0%", "compiled 25%", "same"]


def test_one_job_with_other_bits_is_seen():
    row = row_of("whole")
    for under, losses in (("ample", "a"), ("least", "c"), ("least", "a")):
        row.note(under, {**SAID, "losses": losses})
    assert row.differs and cells_of(row)[-1] == "least: **DIFFERENT**"


def test_ways_of_pytorch_are_compared_with_the_network_compiled_whole():
    assert cells_of(row_of("whole-0"), row_of("whole"))[-1] == "same, as whole"
    assert cells_of(row_of("whole-0", "c"), row_of("whole"))[-1] == "same, other than whole"
