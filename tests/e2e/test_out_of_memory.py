"""A step that cannot fit raises PyTorch's own error, which explains itself; the next step runs."""

import json
import re
import sys
from dataclasses import dataclass

import harness
import pytest

JOB = harness.HERE / "out_of_memory_job.py"
MIB = 2**20


@dataclass(frozen=True)
class Scenario:
    """An infeasible step: the budget, and what the report must say about it."""

    name: str
    budget: int
    requested: tuple[int, int]  # bounds
    pinned: dict[str, int]      # reason -> at least so many bytes
    least_budget: tuple[int, int]  # bounds of the lower bound that the report names

    def __str__(self) -> str:
        return self.name


SCENARIOS = (
    Scenario("one_request", 24 * MIB, (256 * MIB, 257 * MIB), {"parameters": MIB},
             (257 * MIB, 259 * MIB)),
    # 1 MiB of parameters of the other model, 36 MiB of its own; gradients are 4 MiB each.
    Scenario("parameters_and_gradients", 56 * MIB, (4 * MIB, 5 * MIB), {"parameters": 37 * MIB},
             (56 * MIB + 1, 73 * MIB + 5 * MIB)),
    # 1 MiB of parameters, the joined result and what it is joined from.
    Scenario("pinned_inputs", 96 * MIB, (64 * MIB, 65 * MIB),
             {"parameters": MIB, "locked by running operators": 64 * MIB},
             (129 * MIB, 140 * MIB)),
)


def run_job(scenario: Scenario, folder, front: list[str]) -> tuple[dict, str, str]:
    out = folder / "result.json"
    done = harness.run([*front, sys.executable, str(JOB), scenario.name, str(out)])
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), done.stdout, done.stderr


@pytest.mark.torch_floor
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_step_that_cannot_fit(scenario, tmp_path):
    plain, plain_stdout, _ = run_job(scenario, tmp_path, [])
    assert plain["error"] is None
    stats = tmp_path / "stats.json"
    result, stdout, stderr = run_job(scenario, tmp_path,
                                     harness.attached(scenario.budget, stats=stats))
    print(result["error"])  # for a reader of a failure, or of `pytest -s`
    assert result["kind"] == "OutOfMemoryError"
    check_report(scenario, result["error"])
    assert result["digests"] == plain["digests"]
    assert stdout == plain_stdout
    assert all(line.startswith("tidepool: ") for line in stderr.splitlines()), stderr
    assert harness.read_stats(stats)["reserved_peak_bytes"] <= scenario.budget


def check_report(scenario: Scenario, message: str) -> None:
    """The message says what was asked, what is pinned and why, and what would do."""
    requested = harness.bytes_in(message, "out of memory:")
    assert scenario.requested[0] <= requested <= scenario.requested[1]
    assert harness.bytes_in(message, "under a budget of") == scenario.budget
    pinned = pinned_bytes(message)
    for reason, least in scenario.pinned.items():
        assert pinned.get(reason, 0) >= least, f"{reason}: {pinned}"
    assert sum(pinned.values()) <= scenario.budget
    servable = harness.bytes_in(message, "could have been served:")
    assert servable < requested
    bound = harness.lower_bound(message)
    assert scenario.budget < bound
    assert scenario.least_budget[0] <= bound <= scenario.least_budget[1]


def pinned_bytes(message: str) -> dict[str, int]:
    """Return the report's table of pinned bytes by reason."""
    line = r"^  (.+): (?:[0-9.]+ [KMGT]iB \()?([0-9]+) bytes\)?$"
    lines = re.findall(line, message, re.MULTILINE)
    return {reason: int(size) for reason, size in lines}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_the_lower_bound_is_one(scenario, tmp_path):
    """With the budget that the report names, the job gets at least as far: no smaller one would do.

    The bound is for the request that failed, so the job may run or fail at a later one; what it
    must not do is to fail at once with the same bound.
    """
    first, _, _ = run_job(scenario, tmp_path, harness.attached(scenario.budget))
    bound = harness.lower_bound(first["error"])
    second, _, _ = run_job(scenario, tmp_path, harness.attached(2 * bound))
    assert second["error"] is None, second["error"]
    tight, _, _ = run_job(scenario, tmp_path, harness.attached(bound))
    assert tight["error"] is None or harness.lower_bound(tight["error"]) > bound, tight["error"]
