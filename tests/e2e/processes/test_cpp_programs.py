"""C++ programs on LibTorch, without Python: the same bits, a budget that holds, PyTorch's error."""

from pathlib import Path

import harness
import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "build" / "dev" / "programs"
SHIM = ROOT / "build" / "dev" / "lib" / "libtidepool_preload.so"
VERSION = "_".join(torch.__version__.split(".")[:2])
LIBTORCH = Path(torch.__file__).parent / "lib"
BUDGET = "6.5MiB"
BUDGET_BYTES = 13 << 19
NO_TRIPWIRE = VERSION in ("2_11", "2_12")
needs_tripwire = pytest.mark.skipif(NO_TRIPWIRE, reason="raw writes cannot be noticed there")


def run(*arguments: str, program: str = "plain", front=(), libtorch: Path = LIBTORCH, **environ):
    """Run a program of tests/programs on a LibTorch."""
    return harness.run([*front, str(PROGRAMS / f"tidepool_{program}_{VERSION}"), *arguments],
                       LD_LIBRARY_PATH=f"{libtorch}:{SHIM.parent}", **environ)


def preloaded(*arguments: str, **environ):
    """Run one that knows nothing of Tidepool, with it."""
    return run(*arguments, LD_PRELOAD=str(SHIM), **environ)


@pytest.fixture(scope="module")
def plain():
    done = run("train")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done


def check(done, expected) -> None:
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected.stdout
    lines = done.stderr.splitlines()
    assert lines[0].startswith("tidepool: attached, budget ") and len(lines) >= 2, done.stderr


@needs_tripwire
def test_a_program_with_the_preload_library_keeps_the_budget(plain, tmp_path):
    stats = tmp_path / "stats.json"
    done = preloaded("train", TIDEPOOL_BUDGET=BUDGET, TIDEPOOL_STATS=str(stats))
    check(done, plain)
    values = harness.read_stats(stats)
    assert values["reserved_peak_bytes"] <= values["budget_bytes"] == BUDGET_BYTES
    assert values["evictions"] > 0 and values["operators_replayed"] > 0


@pytest.mark.parametrize("name, kind", [("STATS", "statistics file"), ("TRACE", "trace")])
def test_no_file_of_a_users_is_replaced(tmp_path, name, kind):
    path = tmp_path / "train.cpp"
    path.write_text("int main() {}\n")
    done = preloaded("train", TIDEPOOL_BUDGET=BUDGET, **{f"TIDEPOOL_{name}": str(path)})
    assert f"{name.lower()} '{path}': exists and is no {kind}" in done.stderr
    assert path.read_text() == "int main() {}\n"


@needs_tripwire
@pytest.mark.parametrize("chaos", ["op", "random:3"])
def test_everything_may_be_evicted(plain, chaos, tmp_path):
    stats = tmp_path / "stats.json"
    done = preloaded("train", TIDEPOOL_CHAOS=chaos, TIDEPOOL_STATS=str(stats))
    check(done, plain)
    values = harness.read_stats(stats)
    assert values["contents_compared"] > 0 and not values["contents_different"]


@needs_tripwire
def test_run_attaches_to_a_program(plain):
    check(run("train", front=harness.attached(BUDGET)), plain)


@needs_tripwire
def test_a_call_attaches(plain):
    done = run("enable", BUDGET, program="train")
    check(done, plain)
    words = done.stderr.splitlines()[1].split()
    assert words[0] == "statistics" and int(words[1]) <= int(words[3].rstrip(",")) == BUDGET_BYTES
    assert int(words[4]) > 0


@needs_tripwire
@pytest.mark.parametrize("how", ["address", "switch", "threads"])
def test_what_goes_past_the_dispatcher(how):
    expected = run(how)
    assert expected.returncode == 0, expected.stderr
    check(preloaded(how, TIDEPOOL_CHAOS="op"), expected)
    check(preloaded(how, TIDEPOOL_BUDGET=BUDGET), expected)


@needs_tripwire
def test_a_network_is_saved_and_loaded(tmp_path):
    expected = run("save", str(tmp_path / "plain.pt"))
    done = preloaded("save", str(tmp_path / "ours.pt"), TIDEPOOL_CHAOS="op")
    check(done, expected)


@needs_tripwire
def test_steps_without_an_optimizer(tmp_path):
    stats = tmp_path / "stats.json"
    expected = run("loop", "1TiB", program="train")
    done = run("loop", BUDGET, program="train", TIDEPOOL_STATS=str(stats))
    check(done, expected)


@needs_tripwire
def test_out_of_memory_is_pytorchs_error(plain):
    done = preloaded("oom", TIDEPOOL_BUDGET=BUDGET)
    assert done.returncode == 0, done.stderr
    assert "refused\n" in done.stdout and "not refused" not in done.stdout
    assert done.stdout.replace("refused\n", "") == plain.stdout


@needs_tripwire
def test_a_folder_of_libtorch(plain, tmp_path):
    """What is downloaded as LibTorch: include, lib and share, without Python around them."""
    folder = tmp_path / "libtorch" / "lib"
    folder.mkdir(parents=True)
    for library in LIBTORCH.iterdir():
        (folder / library.name).symlink_to(library)
    beside = LIBTORCH.parent.parent / "nvidia"
    if beside.exists():  # where its libraries look for CUDA's
        (tmp_path / "nvidia").symlink_to(beside)
    check(run("train", libtorch=folder, LD_PRELOAD=str(SHIM), TIDEPOOL_BUDGET=BUDGET), plain)


@pytest.mark.torch_floor
def test_a_program_that_cannot_be_attached_ends_or_runs_as_without(plain):
    settings = {"TIDEPOOL_BUDGET": "8gib"} if not NO_TRIPWIRE else {"TIDEPOOL_BUDGET": BUDGET}
    done = preloaded("train", **settings)
    assert done.stdout == plain.stdout and done.returncode == 0
    reason = "2.13 or newer" if NO_TRIPWIRE else "did you mean GiB"
    assert done.stderr.startswith("tidepool: running without Tidepool: "), done.stderr
    assert reason in done.stderr and len(done.stderr.splitlines()) == 1
    done = preloaded("train", TIDEPOOL_REQUIRED="1", **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tidepool: this process ends"), done.stderr


CORNERS = ("read_beside_an_operator", "write_beside_an_operator", "operators_in_a_region",
           "addresses_in_a_region", "used_by_handlers", "used_by_destructors", "printed",
           "given_away", "of_rare_types")


@needs_tripwire
@pytest.mark.parametrize("case", CORNERS)
def test_corners_of_programs_print_the_same(case):
    """Tensors are used beside other threads, in parallel regions, at the end, and by address."""
    environ = {"OMP_NUM_THREADS": "2"}
    expected = run(case, program="corners", **environ)
    assert expected.returncode == 0, expected.stderr
    for more in ({}, {"TIDEPOOL_CHAOS": "op"}):
        done = run(case, program="corners", LD_PRELOAD=str(SHIM), TIDEPOOL_BUDGET="1GiB",
                   **environ, **more)
        check(done, expected)
