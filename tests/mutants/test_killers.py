"""The jobs that notice mutants give the same bits where there are none; the table is complete."""

import os
from concurrent.futures import ThreadPoolExecutor

import laboratory
import pytest
import torch
from killer_models import MODELS
from mutant_table import ENDING, IN_CPP, KILLERS, OFFLOADED, ON_CUDA, WRONG
from selection import FULL

NEED_TRIPWIRE = ("unseen_writer",)  # a limit of older PyTorch
SLOW = ("compiled",)  # half a minute for PyTorch's compiler: only in full runs


def test_every_mutant_has_a_killer():
    there = set(WRONG)
    assert len(there) > 30
    assert set(KILLERS) | set(IN_CPP) | set(ON_CUDA) | set(OFFLOADED) == there
    assert not set(KILLERS) & set(IN_CPP)
    assert set(ENDING) == {name for name, (program, _) in IN_CPP.items() if program == "sim"}
    assert {killer.model for killer in [*KILLERS.values(), *ENDING.values()]} == set(MODELS)


def test_every_rule_has_mutants():
    rules = {name.split(".")[0] for name in WRONG}
    assert rules == {str(rule) for rule in range(1, 12)}


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
