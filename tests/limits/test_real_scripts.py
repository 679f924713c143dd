"""The benchmark that compares training scripts of others judges what they said as it should."""

import dataclasses
import importlib
import sys

import pytest
from limits_support import ROOT

sys.path[:0] = [str(ROOT / "bench")]

real_scripts = importlib.import_module("real_scripts")

MEMORY = {"reserved_peak_bytes": 90, "budget_bytes": 100, "contents_different": {}}
PLAIN = real_scripts.Ran(0, ["loss 1"], "", [{"steps": 2, "digest": "a", "memory": None}], 1.0)
SAME = dataclasses.replace(PLAIN, said=[{"steps": 2, "digest": "a", "memory": MEMORY}])


def said(**changed) -> list[dict]:
    return [{**SAME.said[0], **changed}]


@pytest.mark.parametrize("changed, expected", [
    ({}, "same"),
    ({"said": said(digest="b")}, "**DIFFERENT**"),
    ({"said": said(steps=3)}, "**DIFFERENT**"),
    ({"said": []}, "**DIFFERENT**"),
    ({"said": said(memory={**MEMORY, "reserved_peak_bytes": 101})}, "**MORE THAN THE BUDGET**"),
    ({"said": said(memory={**MEMORY, "contents_different": {"aten::mul": 1}})},
     "**CONTENTS CAME BACK OTHERWISE**"),
    ({"printed": ["loss 2"]}, "**PRINTS OTHERWISE**"),
    ({"status": 1, "errors": "torch.OutOfMemoryError: "}, "**out of memory**"),
    ({"status": 1}, "**status 1**")])
def test_verdicts(changed, expected):
    assert real_scripts.verdict(PLAIN, PLAIN, dataclasses.replace(SAME, **changed)) == expected


def test_what_differs_without_tidepool_does_not_count():
    varied = dataclasses.replace(PLAIN, printed=["loss 3"])
    got = dataclasses.replace(SAME, printed=["loss 2"])
    assert real_scripts.verdict(PLAIN, varied, got) == "same"
    other = dataclasses.replace(PLAIN, said=[{**PLAIN.said[0], "digest": "c"}])
    got = dataclasses.replace(SAME, said=said(digest="b"))
    assert real_scripts.verdict(PLAIN, other, got) == "varies without, too"


@pytest.mark.long
def test_a_script_is_watched_step_by_step(tmp_path):
    job = [str(ROOT / "bench" / "jobs" / "train_long_steps.py"), "experts", "2"]
    runner = real_scripts.Runner(real_scripts.Script("torch", ""), job, tmp_path)
    plain = runner.run()
    budget, ample = runner.attached("ample", None)
    assert plain.status == ample.status == 0, plain.errors + ample.errors
    assert plain.said[0]["steps"] == 2 and len(plain.printed) == 2
    assert real_scripts.verdict(plain, plain, ample) == "same"
    assert ample.memory[0]["budget_bytes"] == budget
