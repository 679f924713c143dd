"""Hard cases: whatever a job does, its results are those of a run without Tidepool.

A case is a function in a `*_cases.py` module. Each runs once without Tidepool, under chaos at
operators, and, if that does not take long, under one more kind of it, in processes of their own.
TIDEPOOL_FULL=1 adds the long modules, and takes each kind of chaos for each.
"""

import json
import sys
from pathlib import Path

import pytest
from harness import run
from selection import FULL

HERE = Path(__file__).parent
MODULES = sorted(path.stem for path in HERE.glob("*_cases.py")
                 if FULL or path.stem != "stress_cases")
CHAOS = ("op", "alloc", "random:3", "offload:2")
# What depends most on PyTorch's version.
FLOOR = ("numeric_state_cases", "replaced_cases", "storage_cases")
LONG = ("compiled_cases", "concurrency_cases", "layout_cases", "numeric_state_cases")
# With a tier these raw writers find roots away, too, and are refused: PyTorch raises in them.
REFUSED_WITH_A_TIER = ("case_raw_writer_of_a_root", "case_raw_writer_before_any_operator",
                        "case_raw_writer_after_readers_that_never_end")


def chosen() -> list:
    """Return modules and kinds of chaos as parameters."""
    others = CHAOS[1:]
    pairs = [(module, chaos) for number, module in enumerate(MODULES) for chaos in CHAOS
             if FULL or chaos == "op"
             or module not in LONG and chaos == others[(number + 2) % len(others)]]
    return [pytest.param(*pair, marks=[pytest.mark.torch_floor]
                         if pair[0] in FLOOR and pair[1] == "op" else []) for pair in pairs]


def run_cases(module: str, out: Path, chaos: str | None) -> dict:
    """Run a module's cases; return by name what each returned and how many replays it took."""
    front = [sys.executable]
    if chaos is not None:
        tier = ["--offload", f"file:{out.parent}:1GiB"] if chaos.startswith("offload") else []
        front += ["-m", "tidepool", "run", "--device", "cpu", "--budget", "4GiB",
                  f"--chaos={chaos}", *tier, "--", sys.executable]
    done = run([*front, str(HERE / "case_job.py"), module, str(out)])
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Returns the results of a module without Tidepool; each is run once."""
    done: dict[str, dict] = {}

    def results(module: str) -> dict:
        if module not in done:
            out = tmp_path_factory.mktemp("plain") / "out.json"
            done[module] = run_cases(module, out, None)
            del done[module]["contents_different"]
        return done[module]

    return results


@pytest.mark.parametrize(("module", "chaos"), chosen())
def test_same_results(plain, tmp_path, module, chaos):
    expected = plain(module)
    found = run_cases(module, tmp_path / "out.json", chaos)
    assert found.pop("contents_different") == {}  # by the plugin's own fingerprints
    wrong = {name: (case["result"], found[name]["result"]) for name, case in expected.items()
             if case["result"] != found[name]["result"]
             and not (chaos.startswith("offload") and name in REFUSED_WITH_A_TIER)}
    assert wrong == {}
    assert not [name for name, case in expected.items() if case["result"].startswith("raised")]
    if chaos == "op":
        assert not [name for name, case in found.items() if case["replays"] == 0]
