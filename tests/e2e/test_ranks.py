"""Jobs of two processes compute the same with Tidepool, and what they make can be evicted."""

import json
import sys

import harness
import pytest
from selection import FULL

JOB = str(harness.HERE / "ranks_job.py")
BUDGET = 64 * 2**20  # of a step that takes 104 MiB with ample memory
PARTS = ["replicated", "sharded", "mixed", "parallel", "collectives"]


def run(tmp_path, name: str, front: list[str], parts: list[str], **environ: str) -> list[str]:
    """Run parts of the job; return their digests, sorted."""
    command = [*front, sys.executable, JOB, str(tmp_path / f"rendezvous_{name}"), *parts]
    done = harness.run(command, **environ)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert len(lines) == 2 * len(parts)
    return lines


def without(lines: list[str], *parts: str) -> list[str]:
    """Return the digests of other parts."""
    return [line for line in lines if line.split()[0] not in parts]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What comes out without Tidepool."""
    return run(tmp_path_factory.mktemp("plain"), "plain", [], [*PARTS, "large"])


@pytest.mark.parametrize("chaos", [
    "op", *(["alloc", "offload:3", "random:1", "random:2", "bounded:3"] if FULL else [])])
def test_collectives_and_sharding_under_chaos(tmp_path, plain, chaos):
    """With a second tier contents without lineage leave, too."""
    front = harness.attached(harness.AMPLE, f"--chaos={chaos}",
                             "--offload", f"file:{tmp_path}:1GiB")
    assert run(tmp_path, "chaos", front, PARTS) == without(plain, "large")


def test_activations_are_evicted_although_parameters_come_and_go(tmp_path, plain):
    out = tmp_path / "statistics.json"
    tight = run(tmp_path, "tight", harness.attached(BUDGET), ["large"], RANKS_STATISTICS=str(out))
    assert tight == without(plain, *PARTS)
    statistics = json.loads(out.read_text())
    assert statistics["evictions"] > 0 and statistics["reserved_peak_bytes"] <= BUDGET
