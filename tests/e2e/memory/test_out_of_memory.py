"""A step that cannot fit raises PyTorch's own error, which explains itself; the next step runs."""

import json
import re
import sys
from dataclasses import dataclass

import harness
import pytest
from selection import FULL

JOB = harness.HERE / "memory/out_of_memory_job.py"
MIB = 2**20


@dataclass(frozen=True)
class Scenario:
    """An infeasible step: the budget, and what the report must say about it."""

    name: str
    budget: int
    requested: int | None
    pinned: dict[str, int]  # reason -> at least so many bytes
    bound: tuple[int, int]  # where the lower bound that the report names must lie

    def __str__(self) -> str:
        return self.name


SCENARIOS = (
    Scenario("one_request", 24 * MIB, 256 * MIB, {}, (256 * MIB, 259 * MIB)),
    Scenario("parameters_and_gradients", 56 * MIB, None,
             {"parameters": 36 * MIB, "gradients": 8 * MIB},
             (56 * MIB + 1, 80 * MIB)),
    Scenario("pinned_inputs", 96 * MIB, 64 * MIB,
             {"parameters": 256 << 10, "optimizer state": 512 << 10, "inputs": 8 * MIB,
              "memory whose address was handed out (NumPy, DLPack, data_ptr)": 4 * MIB,
              "operands of cat": 64 * MIB},
             (140 * MIB, 145 * MIB)),
)


def run_job(scenario: Scenario, folder, front: list[str]) -> tuple[dict, str, str]:
    out = folder / "result.json"
    done = harness.run([*front, sys.executable, str(JOB), scenario.name, str(out)])
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), done.stdout, done.stderr


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """Returns the run of a scenario under its budget, and its statistics; each runs once."""
    done = {}

    def run(scenario: Scenario) -> tuple[dict, str, str, dict]:
        if scenario.name not in done:
            folder = tmp_path_factory.mktemp("refused")
            stats = folder / "stats.json"
            ended = run_job(scenario, folder, harness.attached(scenario.budget, stats=stats))
            done[scenario.name] = *ended, harness.read_stats(stats)
        return done[scenario.name]

    return run


@pytest.mark.parametrize("scenario", [
    pytest.param(scenario, marks=[] if number else [pytest.mark.torch_floor])
    for number, scenario in enumerate(SCENARIOS)], ids=str)
def test_a_step_that_cannot_fit(scenario, refused, tmp_path):
    plain, plain_stdout, _ = run_job(scenario, tmp_path, [])
    assert plain["error"] is None
    result, stdout, stderr, stats = refused(scenario)
    print(result["error"])  # for a reader of a failure, or of `pytest -s`
    assert result["kind"] == "OutOfMemoryError"
    check_report(scenario, result["error"])
    # What Lightning and Accelerate look for before they try a smaller batch.
    assert "DefaultCPUAllocator: can't allocate memory" in result["error"]
    assert result["digests"] == plain["digests"]
    assert stdout == plain_stdout
    assert all(line.startswith("tidepool: ") for line in stderr.splitlines()), stderr
    assert stats["reserved_peak_bytes"] <= scenario.budget


def check_report(scenario: Scenario, message: str) -> None:
    """The message says what was asked, what is pinned and why, and what would do."""
    requested = harness.bytes_in(message, "out of memory:")
    assert scenario.requested in (None, requested)
    assert harness.bytes_in(message, "under a budget of") == scenario.budget
    pinned = table(message, "Cannot be evicted now")
    evictable = table(message, "Can be evicted")
    in_use = harness.bytes_in(message, "in use:")
    assert sum(pinned.values()) + sum(evictable.values()) == in_use
    for reason, least in scenario.pinned.items():
        assert pinned.get(reason, 0) >= least, f"{reason}: {pinned}"
    assert sum(pinned.values()) <= scenario.budget
    servable = harness.bytes_in(message, "could have been served:")
    assert servable < requested
    bound = harness.lower_bound(message)
    assert scenario.budget < bound
    assert scenario.bound[0] <= bound <= scenario.bound[1]
    to_try = harness.bytes_in(message, "A budget to try:")
    assert bound <= to_try < 2 * bound
    assert ("at least" in message) == (scenario.name != "pinned_inputs")  # its first step has run


def table(message: str, title: str) -> dict[str, int]:
    """Return one of the report's tables, bytes by use, checked against the sum in its title."""
    found = re.search(rf"^{title}: .+:\n((?:  .+\n)*)", message, re.MULTILINE)
    if found is None:
        return {}
    lines = re.findall(r"^  (.+): (?:[0-9.]+ [KMGT]iB \()?([0-9]+) bytes\)?$", found[1],
                       re.MULTILINE)
    uses = {use: int(size) for use, size in lines}
    assert len(uses) == found[1].count("\n")
    assert sum(uses.values()) == harness.bytes_in(message, f"{title}:")
    return uses


@pytest.mark.parametrize("scenario", SCENARIOS if FULL else SCENARIOS[-1:], ids=str)
def test_no_budget_below_the_bound_would_do(scenario, refused, tmp_path):
    """Just below the bound the same step fails; at twice the bound it fits."""
    first, *_ = refused(scenario)
    bound = harness.lower_bound(first["error"])
    below, _, _ = run_job(scenario, tmp_path, harness.attached(bound - 2 * MIB))
    assert below["kind"] == "OutOfMemoryError"
    above, _, _ = run_job(scenario, tmp_path, harness.attached(2 * bound))
    assert above["error"] is None, above["error"]
