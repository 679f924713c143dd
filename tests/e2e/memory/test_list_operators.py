"""Operators on lists whose results have no room beside what lasts, without a second tier."""

import sys

import harness
import pytest

JOB = harness.HERE / "memory/list_job.py"
PARAMETERS = 12 * (256 * 256 + 256) * 4  # bytes
LASTING = 4 * PARAMETERS  # with gradients and two moments


@pytest.mark.torch_floor
@pytest.mark.parametrize("room", [
    pytest.param(PARAMETERS // 3, id="a third of the copy"),
    pytest.param(PARAMETERS + (8 << 10), id="the copy in bytes, not in whole pages")])
def test_an_optimizer_on_lists_needs_no_room_for_a_copy_of_all_parameters(tmp_path, room):
    command = [sys.executable, str(JOB)]
    plain = harness.run(command)
    stats = tmp_path / "stats.json"
    done = harness.run([*harness.attached(LASTING + room, stats=stats), *command])
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    assert harness.read_stats(stats)["evictions"] > 0


def test_an_optimizer_on_lists_under_chaos_and_a_tight_budget():
    command = [sys.executable, str(JOB)]
    plain = harness.run(command)
    budget = LASTING + PARAMETERS // 2
    done = harness.run([*harness.attached(budget, "--chaos=op"), *command])
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
