"""What is to be measured on a GPU runs on the stand-in device, and leaves its results.

The stand-in device has no kernels: values cannot differ, and no time means anything. The usual run
has a few parts of three stages; TIDEPOOL_FULL=1 has all of all.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits_support import ROOT, TIMEOUT_SECONDS
from selection import FULL

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "gpu"), str(ROOT / "cmake")]

import databases  # noqa: E402
import gpu_check  # noqa: E402
import gpu_needs  # noqa: E402
import gpu_report  # noqa: E402
import measure  # noqa: E402
import needed_symbols  # noqa: E402
import standin  # noqa: E402
import varying  # noqa: E402

# What measures costs runs in test_bench_smoke.py, networks in tests/torch_cuda, and the training
# benchmark in test_train_bench.py.
PARTS = {"d": ["wide under chaos"]}
FULL_ONLY = pytest.mark.skipif(not FULL, reason="takes a while")
MOST_CALLS = 12
# cuDNN's recurrent layers, NCCL, and Triton.
NOT_HERE = ("lstm of cuDNN", "data parallel", "bilstm", "gpt, compiled", "resnet18, compiled")


def call(*arguments: str, environ: dict | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([str(ROOT / "dev"), "gpu-check", *arguments], text=True,
                          capture_output=True, timeout=max(TIMEOUT_SECONDS, 600),
                          env={**(environ or os.environ), "PYTHON": sys.executable})


def finished(path: str, *arguments: str) -> subprocess.CompletedProcess:
    """Call until there is nothing more to do, with this PYTHONPATH."""
    done = call(*arguments, environ=device(path))
    for _ in range(MOST_CALLS):
        if done.returncode != gpu_check.UNFINISHED:
            break
        done = call(*arguments, "--resume", environ=device(path))
    return done


@pytest.fixture(scope="module")
def no_numpy(tmp_path_factory) -> str:
    """Return a folder for PYTHONPATH with which no Python finds NumPy, as PyTorch brings none."""
    folder = tmp_path_factory.mktemp("no_numpy")
    folder.joinpath("sitecustomize.py").write_text(WITHOUT_NUMPY)
    return str(folder)


WITHOUT_NUMPY = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: (
    None if name.partition(".")[0] in ("numpy", "scipy") else find(name, *more))
"""


def device(path: str) -> dict[str, str]:
    return {**standin.environment(touch=False, granularity="64KiB"), "PYTHONPATH": path}


def parts(out: Path, letter: str) -> dict[str, dict]:
    return json.loads(next(out.glob(f"gpu-{letter}-*.json")).read_text())["parts"]


@pytest.fixture(scope="module")
def done(tmp_path_factory, no_numpy) -> Path:
    out = tmp_path_factory.mktemp("gpu")
    few = ("mlp", "prices", "wall", "waits")
    chosen = () if FULL else tuple(f"--part={name}$" for name in few)
    done = finished(no_numpy, "--stage", "ba", "--smoke", "--out", str(out), "--keep",
                    str(out / "kept"), *chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    (out / "said").write_text(done.stdout)
    return out


def test_prices_of_the_driver(done):
    content = json.loads(next(done.glob("gpu-b-*.json")).read_text())
    assert content["commit"] and content["smoke"]
    assert [part["error"] for part in content["parts"].values()] == [""] * 3
    names = {result["name"] for result in content["parts"]["prices"]["results"]}
    for name in ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"):
        for state in ("idle", "with work in flight"):
            assert f"{name} of 20.00 MiB, {state}" in names
    assert content["parts"]["wall"]["facts"]["mappings"] == 1000
    assert content["parts"]["waits"]["facts"]["error of the work, 0 for none"] == 0


def test_bits_and_budget(done):
    found = parts(done, "a")
    assert [part["error"] for part in found.values()] == [""] * (3 if FULL else 1)
    for part in found.values():
        facts = {name.removeprefix("default: "): value for name, value in part["facts"].items()}
        assert facts["the plain job equals itself"] == facts["the budget was kept"] == 1
        assert facts["the same bits under the budget"] == 1
        assert facts["evictions"] > 0
        assert facts["budget, MiB"] < facts["plain peak allocated, MiB"]


def test_needs_come_first_and_verdicts_as_soon_as_there_are_some(done):
    lines = (done / "said").read_text().splitlines()
    assert lines[0] == "driver: 13.0"
    assert [line.split(":")[0] for line in lines[1:4]] == ["glibc", "libstdc++", "memory"]
    assert "8.0 GiB of 8.0 GiB are free: TOO LITTLE for stage a" in lines[3]
    prices = next(n for n, line in enumerate(lines) if line.startswith("verdict on prices: moving"))
    bits = next(n for n, line in enumerate(lines) if line.startswith("verdict on bits: "))
    assert 5 < prices < bits
    assert "mlp the same" in lines[bits]


def test_what_is_too_old_is_said():
    assert gpu_needs.judged("glibc", (2, 34), (2, 34), "(x)") == "glibc: 2.34"
    assert gpu_needs.judged("glibc", (2, 28), (2, 34), "(x)") == (
        "glibc: 2.28: TOO OLD, needed is 2.34 or newer (x)")
    assert gpu_needs.judged("driver", None, (13, 0), "") == (
        "driver: none; needed is 13.0 or newer")
    assert gpu_needs.glibcxx()[:2] == (3, 4)


def test_a_verdict_tells_a_difference_from_a_job_that_varies():
    def part(**facts: tuple[int, int, int]) -> dict:
        names = ("the plain job equals itself", "the same bits under the budget",
                 "the budget was kept")
        return {"error": "", "facts": {f"{mode}: {name}": value for mode, values in facts.items()
                                       for name, value in zip(names, values, strict=True)}}

    found = {"one": part(a=(1, 1, 1), b=(1, 1, 1)), "two": part(a=(1, 1, 1), b=(0, 0, 1)),
             "three": part(a=(1, 0, 1), b=(0, 0, 1)), "four": part(a=(1, 1, 0)), "five": part()}
    assert gpu_report.verdict("a", found) == (
        "verdict on bits: one the same, two varies by itself, three DIFFERS, "
        "four PASSED ITS BUDGET, five failed")


# What only builds with assertions need.
ASSERTIONS = ("_ZSt21__glibcxx_assert_fail",)


def test_what_is_carried_needs_nothing_new_of_a_system():
    folder = ROOT / "bindings" / "python" / "tidepool" / "lib"
    programs = [path for path in measure.build_folder().joinpath("bench").glob("*")
                if path.is_file() and any(name in path.name for name in (
                    "gpu_prices", "cuda_pairs", "operator_overhead"))]
    carried = [*folder.glob("libtidepool_*.so"), *programs]
    assert len(carried) >= 8
    problems = {str(path): [*(found for found in needed_symbols.too_new(str(path))
                              if not found[0].startswith(ASSERTIONS)),
                            *needed_symbols.foreign_folders(str(path))] for path in carried}
    assert {path: found for path, found in problems.items() if found} == {}


def test_the_table_has_every_figure(done):
    text = next(done.glob("gpu-b-*.md")).read_text()
    assert "| cuEventQuery, idle |" in text
    assert "- mappings: 1000" in text


@pytest.fixture(scope="module")
def more(tmp_path_factory, no_numpy) -> Path:
    """Stages c to f: a few parts of each, or all that the stand-in device can run."""
    out = tmp_path_factory.mktemp("more")
    for letter in "cdef" if FULL else PARTS:
        names = [part.name for part in gpu_check.STAGES[letter][1]
                 if part.name not in NOT_HERE] if FULL else PARTS[letter]
        chosen = [word for name in names for word in ("--part", f"{name}$")]
        done = finished(no_numpy, "--stage", letter, "--smoke", "--out", str(out), "--keep",
                        str(out / "kept"), *chosen)
        assert done.returncode == 0, done.stdout + done.stderr
    return out


@FULL_ONLY
def test_costs(more):
    found = parts(more, "c")
    names = [each["name"] for each in found["pairs, native"]["results"]]
    assert "native, 512 B, 100 live" in names
    assert any("tidepool beside it" in name for name in names)
    added = {each["name"]: each["median"] for each in found["operators"]["results"]}
    assert added["add [typed] off"] > 0
    assert "sign [boxed] + recorded" in added


def test_databases_under_chaos(more):
    facts = parts(more, "d")["wide under chaos"]["facts"]
    assert facts["cases"] == facts["evicting"] == facts["replaying"] == 3
    assert facts["groups that differ, though no operator of theirs varies"] == 0


@FULL_ONLY
def test_what_varies(more):
    found = parts(more, "d")["what varies"]
    assert found["facts"]["operators run repeatedly"] > 10
    steady = {row[0]: row[1] for row in found["tables"][-1]["rows"]}
    assert steady["aten::index_add"] == 1


@FULL_ONLY
def test_networks_under_pressure(more):
    found = parts(more, "e")
    facts = found["graph"]["facts"]
    assert facts["chaos: the same bits"] == 1 and facts["chaos: evictions"] > 0
    assert facts["chaos: contents compared"] > 0
    assert facts["chaos: contents restored otherwise"] == "none"
    assert facts["offload: the same bits"] == 1 and facts["offload: offloaded_bytes"] > 0
    assert not any("r = 0.5" in fact or "host" in fact for fact in facts)
    assert all(part["facts"]["r = 0.5: the budget was kept"] == 1
               for name, part in found.items() if name != "graph")
    assert all(part["facts"]["host: the same bits"] == 1
               for part in found.values() if "host: the same bits" in part["facts"])


@FULL_ONLY
def test_the_training_benchmark(more):
    found = parts(more, "f")["gpt2_medium"]
    rows = {row[0]: row for row in found["tables"][0]["rows"]}
    assert list(rows) == ["plain", "ample", "r=0.5"]
    assert float(rows["r=0.5"][2]) <= float(rows["r=0.5"][1]) < float(rows["plain"][2])
    assert (more / found["plots"]["gpt2_medium"]).read_text().startswith("<svg")


@FULL_ONLY
def test_largest_batches(more):
    rows = parts(more, "f")["largest batches"]["tables"][0]["rows"]
    found = {row[1]: int(row[2]) for row in rows}
    assert found["plain"] < found["tidepool"] and found["plain"] <= found["checkpoint"]


def finding(error: str = "", unfinished: bool = False) -> dict:
    return {"results": [], "facts": {"found": 1}, "tables": [], "plots": {}, "error": error,
            "unfinished": unfinished}


@pytest.fixture
def rehearsed(monkeypatch, tmp_path):
    """Run gpu_check in this process with parts that end as they are told; return what ran."""
    names = ("one", "two", "three")
    monkeypatch.setitem(gpu_check.STAGES, "a", ("a title", [
        gpu_check.Part(name, (name,)) for name in names]))
    ran = []

    def run(*arguments: str, **ends: dict | None) -> int:
        ran.clear()

        def run_part(part, keep, seconds, smoke):
            ran.append(part.name)
            return ends.get(part.name, finding())

        monkeypatch.setattr(gpu_check, "run_part", run_part)
        return gpu_check.main(["--stage", "a", "--out", str(tmp_path / "out"), "--keep",
                               str(tmp_path / "kept"), *arguments])

    return run, ran, tmp_path / "out"


def test_an_error_is_kept_and_the_next_part_taken(rehearsed):
    run, ran, out = rehearsed
    assert run(one=finding("it failed")) == 1
    assert ran == ["one", "two", "three"]
    assert "- ended: it failed" in next(out.glob("*.md")).read_text()
    assert run("--resume") == 1 and ran == []
    assert run("--resume", "--part", "one") == 0 and ran == ["one"]
    assert run("--resume") == 0 and ran == []


def test_a_call_goes_on_where_the_last_one_stopped(rehearsed):
    run, ran, out = rehearsed
    assert run("--seconds", "0") == gpu_check.UNFINISHED and ran == []
    assert run("--resume", two=finding(unfinished=True)) == gpu_check.UNFINISHED
    assert ran == ["one", "two"]
    assert list(parts(out, "a")) == ["one", "two"]
    assert run("--resume", three=None) == gpu_check.UNFINISHED and ran == ["two", "three"]
    assert run("--resume") == 0 and ran == ["three"]
    assert len(list(out.glob("*.json"))) == 1, "all calls write one file"
    assert run() == 0 and ran == ["one", "two", "three"]


def test_what_went_wrong_does_not_hide_that_there_is_more_to_do(rehearsed):
    run, ran, _ = rehearsed
    assert run(one=finding("it failed"), two=finding(unfinished=True)) == gpu_check.UNFINISHED
    assert run("--resume") == 1 and ran == ["two", "three"]


def test_a_part_ends_with_all_that_it_started(tmp_path):
    mark = tmp_path / "mark"
    script = f"(sleep 2; touch {mark}) & echo '{{\"fact\": \"a\", \"value\": 1}}'; wait"
    status, output, _ = gpu_check.run_for(["bash", "-c", script], 0.5)
    assert status is None and "fact" in output
    subprocess.run(["sleep", "2"], check=True)
    assert not mark.exists()


GROUPS = {
    "one": {"calls": {"aten::index_add_": 3, "aten::sum": 2}, "varied": {"aten::index_add_": 2},
            "outputs": {"aten::index_add_": [0]}},
    "two": {"calls": {"aten::sum": 2, "aten::cumsum": 4, "aten::convolution (transposed)": 1},
            "varied": {"aten::convolution (transposed)": 1},
            "outputs": {"aten::convolution (transposed)": [0]}},
}


def test_what_varies_is_compared_with_the_table(capsys):
    assert {"aten::index_add", "aten::_cudnn_rnn", "aten::convolution (transposed)",
            "aten::cudnn_convolution_transpose"} <= varying.built_in()
    assert "aten::convolution" not in varying.built_in()
    assert varying.report(GROUPS) == []
    tables = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    tables = {said["table"]: said["rows"] for said in tables if "table" in said}
    assert tables["Operators that vary from run to run"] == [
        ["aten::convolution (transposed)", 1, 1, "0", "yes"],
        ["aten::index_add_", 2, 3, "0", "yes"]]
    steady = dict(tables["Operators of the table that did not vary here"])
    assert steady["aten::cumsum"] == 4 and steady["aten::kthvalue"] == "not called"
    assert "aten::index_add" not in steady
    counts = {"aten::sum": 1, "aten::convolution": 1}
    unknown = {"three": {"calls": counts, "varied": counts,
                         "outputs": {name: [0] for name in counts}}}
    assert varying.report(unknown) == ["aten::convolution", "aten::sum"]


def test_a_difference_needs_an_operator_that_varies(capsys):
    groups = {name: {"wrong": ["sample 0: bits differ"]} for name in ("one", "two")}
    assert databases.report(groups, {"one": ["aten::index_add"]}) == 1
    assert databases.report(groups, {"one": ["aten::index_add"], "two": ["aten::put"]}) == 0
    assert '"value": 2' in capsys.readouterr().out


def test_without_a_gpu_it_fails_and_says_so(tmp_path):
    done = call("--stage", "b", "--smoke", "--out", str(tmp_path), "--keep", str(tmp_path / "k"))
    if done.returncode == 0:
        pytest.skip("there is a GPU")
    assert "no CUDA driver" in done.stdout


def test_an_unknown_stage_is_refused():
    done = call("--stage", "z")
    assert done.returncode == 2
    assert "no stage z (there are: a, b, c, d, e, f)" in done.stderr
