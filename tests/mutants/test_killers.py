"""The jobs that notice mutants give the same bits where there are none; the table is complete."""

import os
import re
from concurrent.futures import ThreadPoolExecutor

import laboratory
import mutant_table
import pytest
import torch
from killer_models import MODELS
from mutant_table import ENDING, KILLERS, ON_CUDA, ROOT, SIMULATED
from selection import FULL

USE = re.compile(r"TIDEPOOL_MUTANT\((\d+), (\w+)\)")
SOURCES = ("allocator", "remat", "bindings")
NEED_TRIPWIRE = ("unseen_writer",)  # a limit of older PyTorch
SLOW = ("compiled",)  # half a minute for PyTorch's compiler: only in full runs


def uses() -> set[str]:
    """Return the mutants that the sources name."""
    found = set()
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".h", ".cpp"):
                text = path.read_text(encoding="utf-8")
                found |= {f"{rule}.{name}" for rule, name in USE.findall(text)}
    return found


def test_every_mutant_is_in_the_table_is_built_and_has_a_killer():
    there = set(mutant_table.mutants())
    assert len(there) > 30
    assert uses() == there
    assert set(KILLERS) | set(SIMULATED) | set(ON_CUDA) == there
    assert not set(KILLERS) & set(SIMULATED)
    assert set(ENDING) == set(SIMULATED)
    assert {killer.model for killer in [*KILLERS.values(), *ENDING.values()]} == set(MODELS)


def test_every_rule_has_mutants():
    rules = {name.split(".")[0] for name in mutant_table.mutants()}
    assert rules == {str(rule) for rule in range(1, 11)}


@pytest.mark.skipif(not FULL, reason="of use only where mutants run, too")
def test_killers_give_the_same_bits_without_a_mutant(tmp_path):
    left_out = () if FULL else SLOW
    if torch.__version__ < "2.13":
        left_out += NEED_TRIPWIRE
    killers = [killer for killer in [*KILLERS.values(), *ENDING.values()]
               if killer.model not in left_out]
    groups = laboratory.groups(killers)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        def start(number, group, kind, **environ):
            models = [killer.model for killer in group]
            return pool.submit(laboratory.run, models, tmp_path / f"{kind}_{number}", **environ)

        plain = [start(k, group, "plain") for k, group in enumerate(groups)]
        attached = [start(k, group, "attached", **laboratory.settings(group[0]))
                    for k, group in enumerate(groups)]
    for group, expected, found in zip(groups, plain, attached, strict=True):
        assert expected.result().status == 0, expected.result().explain()
        assert found.result().status == 0, found.result().explain()
        for killer in group:
            own, other = found.result().of(killer.model), expected.result().of(killer.model)
            assert len(own.steps) == len(other.steps) == 3
            assert own.difference(other) is None, killer.model
            assert own.replays() > 0, f"{killer.model}: nothing was replayed"
