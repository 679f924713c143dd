"""Values on the CUDA path: operators that write hashes of what they read (value kernels).

The kernels themselves, jobs whose values are the same under Tidepool as without it, and that a
fault would be seen.
"""

from pathlib import Path

import pytest
from selection import FULL
from value_traces import strange_calls

JOBS = ("cnn", "cnn_without_cudnn", "unet", "gpt", "gpt_amp", "bert", "lstm")
CHECKS = ("copies_are_true", "fills_are_true", "only_the_elements_of_a_view_are_written",
          "results_depend_on_all_that_is_read", "values_are_in_range",
          "random_numbers_follow_from_the_state", "threads_have_values_too",
          "planted_faults_happen_once", "operands_are_declared_to_the_race_checker")
HERE = Path(__file__).resolve().parent
DEVICE = {"memory": "8GiB"}
SMALL = ("--size", "chaos")
CHANGES = ("rate", "seed", "offset", "bit")
FAULTS = tuple(f"{kind}={n}" for kind in ("stale", "lost") for n in (1, 10, 100, 300))
# Of these jobs one draws no random number, and one has no buffer.
CHANGED = {"gpt_amp": (*CHANGES, *FAULTS), "cnn": ("offset", *FAULTS)}
FRESH_MEMORY = {"aten::empty.memory_format", "aten::empty_strided"}
KINDS = ("loss", "gradients", "parameters", "buffers")


@pytest.fixture
def small(jobs) -> dict:
    changed = [f"{job}:{change}" for job, changes in CHANGED.items() for change in changes]
    return jobs.json("value_jobs.py", *SMALL, *JOBS, *changed, **DEVICE)


def differing(found: dict, job: str, change: str) -> list[set[str]]:
    """Return which fingerprints a change changed, by step."""
    steps = zip(found[job]["steps"], found[f"{job}:{change}"]["steps"], strict=True)
    return [{kind for kind in KINDS if before[kind] != after[kind]} for before, after in steps]


@pytest.mark.parametrize("name", CHECKS)
def test_single_operators(jobs, name):
    found = jobs.json("value_checks.py", **DEVICE)
    assert found["untreated"] == []
    assert found["replaced"] > 1000
    assert found[name]
    assert set(found[name].values()) == {True}, found[name]


@pytest.mark.parametrize("cudnn", (True, False))
def test_batch_norm(jobs, cudnn):
    found = jobs.json("value_checks.py", **DEVICE)["batch_norm_writes_what_its_schema_hides"]
    assert set(found[f"cudnn_{cudnn}"].values()) == {True}, found


@pytest.mark.parametrize("job", JOBS)
def test_values_are_the_same_under_the_allocator(jobs, job):
    plain = jobs.json("value_jobs.py", "--steps", "2", **DEVICE)
    ours = jobs.json("value_jobs.py", "--steps", "2", "--watch", budget="256MiB", **DEVICE)
    assert ours[job]["steps"] == plain[job]["steps"]
    assert ours["misuses"] == ours["races"] == []


@pytest.mark.parametrize("job", JOBS if FULL else JOBS[-2:])
def test_two_runs_are_equal(jobs, small, job):
    """The second one finds other bytes in fresh memory, and other jobs have run before it."""
    again = jobs.json("value_jobs.py", *SMALL, *reversed(JOBS if FULL else JOBS[-2:]),
                      environ=(("VALUE_KERNELS_BLANK", "5"),), **DEVICE)
    assert again[job]["steps"] == small[job]["steps"]
    prints = [step[kind] for step in small[job]["steps"] for kind in KINDS[:3]]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("job", JOBS)
def test_all_work_is_done_within_value_kernels(jobs, small, job):
    assert small[job]["calls"] > 300
    assert small[job]["operations_within"] == small[job]["operations"] > 300
    assert small["untreated"] == []
    listed = jobs.json("value_jobs.py", *SMALL, "--list", **DEVICE)
    assert len(listed[job]["called"]) > 25
    assert set(listed[job]["bypassing"]) <= FRESH_MEMORY


@pytest.mark.parametrize(("job", "change", "steps"), (
    ("gpt_amp", "rate", [{"gradients", "parameters"}, *2 * [set(KINDS[:3])]]),
    ("gpt_amp", "seed", 3 * [set(KINDS[:3])]),
    ("gpt_amp", "offset", 3 * [set(KINDS[:3])]),
    ("gpt_amp", "bit", [set(), *2 * [set(KINDS[:3])]]),
    ("cnn", "offset", 3 * [set()]),
))
def test_a_change_changes_what_follows_from_it(small, job, change, steps):
    assert differing(small, job, change) == steps


@pytest.mark.parametrize("job", CHANGED)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(small, job, fault):
    assert small[f"{job}:{fault}"]["planted"] == 1
    assert any(differing(small, job, fault))


def trace(jobs, path: Path, *arguments: str, **options) -> list[str]:
    """Run a job; return its calls."""
    environ = (("VALUE_KERNELS_TRACE", str(path)), ("VALUE_KERNELS_BLANK", str(len(path.name))))
    done = jobs.run(*arguments, environ=environ, **options, **DEVICE)
    assert done.returncode == 0, done.stderr
    return path.read_text().splitlines()


def test_a_job_that_knows_nothing_of_values_is_traced(jobs, tmp_path):
    job = ("../support/value_kernels.py", str(HERE / "small_job.py"))
    plain = trace(jobs, tmp_path / "plain", *job)
    assert plain[-1].endswith(" aten::zero_")
    assert trace(jobs, tmp_path / "budgeted", *job, budget="1GiB") == plain


def test_the_first_strange_call_is_the_one_with_the_fault(jobs, tmp_path):
    calls = trace(jobs, tmp_path / "both", "value_jobs.py", *SMALL, "gpt", "gpt:stale=10")
    plain, wrong = calls[:len(calls) // 2], calls[len(calls) // 2:]
    first = next(after for before, after in zip(plain, wrong, strict=True) if before != after)
    assert strange_calls(plain, plain) == []
    assert strange_calls(plain, wrong)[0] == first
