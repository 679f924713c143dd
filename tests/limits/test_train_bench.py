"""The training benchmark takes turns, keeps what it has, compares bits, and draws its tables."""

import json
import sys

import pytest
from limits_support import ROOT

sys.path.insert(0, str(ROOT / "bench"))

import curves
import train_bench
from train_report import Report

SMALL = ("gpt2_medium", "--device", "cpu", "--scale", "small", "--warm", "1", "--steps", "2",
         "--batch", "8")


@pytest.mark.long
def test_on_the_cpu(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    ways = ("--ways", "plain,ample,r=0.5", "--turns", "1", "--out", str(tmp_path))
    assert train_bench.main([*SMALL, *ways]) == 0
    lines = [json.loads(line) for line in (tmp_path / "points.jsonl").read_text().splitlines()]
    answers = {line["key"][1]: line["answer"] for line in lines}
    assert list(answers) == ["plain", "ample", "r=0.5"]
    half = answers["r=0.5"]
    assert half["tidepool"]["evictions"] > 0 and answers["ample"]["tidepool"]["evictions"] == 0
    assert half["tidepool"]["reserved_peak_bytes"] <= half["budget"]
    assert half["budget"] < answers["ample"]["tidepool"]["allocated_peak_bytes"]
    assert half["losses"] == answers["plain"]["losses"]
    assert half["parameters"] == answers["plain"]["parameters"]
    text = (tmp_path / "summary.md").read_text()
    assert text.count("| equal |") == 3
    ample = answers["ample"]["tidepool"]
    assert answers["plain"]["reserved_peak"] == ample["allocated_peak_bytes"]
    assert (tmp_path / "gpt2_medium.svg").read_text().startswith("<svg")
    kept = (tmp_path / "points.jsonl").read_text()
    assert train_bench.main([*SMALL, *ways]) == 0
    assert (tmp_path / "points.jsonl").read_text() == kept, "what was known ran again"


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A bench whose processes answer at once; the commands that it ran."""
    commands = []

    def ask(arguments, environ, seconds):
        commands.append((arguments, environ))
        attached = "tidepool" in arguments
        if "selective" in arguments:
            return {"error": "exit status 1: it failed"}
        return {"ms": [12.0 if attached else 10.0], "losses": "a", "parameters": "b", "items": 4,
                "batch": 4, "fixed": 1000, "allocated_peak": 3000, "reserved_peak": 4096,
                "tidepool": {"allocated_peak_bytes": 3000, "evictions": 1} if attached else {}}

    monkeypatch.setattr(train_bench, "ask", ask)
    points = train_bench.Points(tmp_path / "points.jsonl", "a mark")
    return train_bench.Bench("resnet50", train_bench.Scale("cuda"), points), commands


def quiet(message: str) -> None:
    """Say nothing."""


def test_turns_and_budgets(asked):
    bench, commands = asked
    ways = bench.scale.ways()
    bench.run(ways, 3, float("inf"), quiet)
    orders = [[way for _, way, turn in bench.points.known if turn == k] for k in range(3)]
    assert orders[0] == ways and sorted(orders[1]) == sorted(set(ways) - {"selective"})
    assert len({order[0] for order in orders}) == 3, "every turn begins at another way"
    budgets = {way: bench.budget(way) for way in ways}
    assert budgets["r=0.5"] == "2000" and budgets["r=1"] == "3000"
    assert budgets["as-checkpoint"] == "4096" and budgets["plain"] is None
    environs = [environ for arguments, environ in commands if "tidepool" not in arguments]
    assert sum("PYTORCH_CUDA_ALLOC_CONF" in environ for environ in environs) == 3
    rows = {row[0]: row for row in bench.report().rows()}
    assert rows["selective"][-1] == "exit status 1: it failed"
    assert rows["r=0.5"][7] == "1.200" and rows["r=0.5"][9] == "equal"


def test_a_second_tier_changes_nothing_but_that(asked):
    bench, commands = asked
    bench.run(bench.scale.ways(["plain", "ample", "r=0.5", "host:r=0.5"]), 1, float("inf"), quiet)
    (half, _), (tier, _) = commands[-2:]
    assert [each for each in tier if each not in half] == ["--offload", train_bench.HOST_MEMORY]
    assert tier.index("--offload") < tier.index("--")


def test_a_second_tier_is_refused_on_the_cpu(capsys):
    with pytest.raises(SystemExit):
        train_bench.main(["resnet50", "--device", "cpu", "--ways", "plain,host:r=0.5"])
    assert "need --device cuda" in capsys.readouterr().err


def test_a_bench_goes_on_where_it_was_stopped(asked):
    bench, commands = asked
    with pytest.raises(train_bench.TimeIsUp):
        bench.run(("plain", "ample"), 1, 0, quiet)
    assert commands == []
    bench.run(("plain",), 1, float("inf"), quiet)
    with bench.points.path.open("a") as file:
        file.write('{"mark": "a mark", "key": ["resn')
    again = train_bench.Points(bench.points.path, "a mark")
    assert list(again.known) == [("resnet50", "plain", 0)]
    assert train_bench.Points(bench.points.path, "another mark").known == {}


def answer(**changes) -> dict:
    return {"ms": [10.0, 20.0], "losses": "a", "parameters": "b", "items": 40, "batch": 4,
            "fixed": 1000, "reserved_peak": 1 << 20, "tidepool": {}, **changes}


def test_bits_are_compared_with_those_of_a_plain_job_that_equals_itself():
    known = {("n", "plain", 0): answer(), ("n", "r=0.5", 0): answer(losses="c"),
             ("n", "ample", 0): answer()}
    rows = {row[0]: row for row in Report("n", known).rows()}
    assert [rows[way][9] for way in ("plain", "r=0.5", "ample")] == ["equal", "differ", "equal"]
    known["n", "plain", 1] = answer(parameters="d")
    assert {row[9] for row in Report("n", known).rows()} == {"plain varies"}


def test_largest_batches():
    def search(largest, ms, complete=True):
        return {"tried": [[8, ms], [largest, ms * largest / 8], [2 * largest, None]],
                "largest": largest, "items": 1, "complete": complete}

    known = {("n", "largest, plain", 16): search(16, 8.0),
             ("n", "largest, tidepool", 16): search(48, 10.0),
             ("n", "largest, checkpoint", 16): search(64, 12.0, complete=False)}
    rows = {row[1]: row for row in Report("n", known).largest_rows()}
    assert rows["tidepool"][2:7] == ["48", "1.250", "1.250", "48", "3.00"]
    assert rows["checkpoint"][4:] == ["1.500", "-", "-", "broken off: perhaps larger"]


def test_a_search_ends_between_what_fits_and_what_does_not(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "jobs"))
    import train_network

    monkeypatch.setattr(train_network, "fits", lambda training, size: 5.0 if size <= 70 else None)
    monkeypatch.setattr(train_network, "items_in", lambda training: 1)

    class Host:
        on_gpu = False

    found = train_network.find_largest(Host(), 0, 16, float("inf"))
    assert 62 <= found["largest"] <= 70 and found["complete"]
    monkeypatch.setattr(train_network, "fits", lambda training, size: 5.0 if size <= 3 else None)
    assert train_network.find_largest(Host(), 0, 16, float("inf"))["largest"] == 3
    monkeypatch.setattr(train_network, "fits", lambda training, size: None)
    assert train_network.find_largest(Host(), 0, 16, float("inf"))["largest"] == 0


def test_curves_and_dots_are_drawn():
    picture = curves.draw({"a & b": [(0.5, 1.5), (1.0, 1.0)], "dot": [(0.7, 2.0)]}, "title", 1.0,
                          "x")
    assert picture.count("<polyline") == 1 and picture.count("<circle") == 1
    assert "a &amp; b" in picture
    x, y = curves.Axes({"all": [(0.5, 1.5), (1.0, 1.0), (0.7, 2.0)]}, 1.0).at(0.5, 2.0)
    assert (x, y) == (curves.LEFT, curves.TOP)


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        train_bench.main(["resnet51"])
    assert "no network resnet51 (there are: resnet50" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        train_bench.main(["resnet50", "--ways", "r=2"])
    assert "no way r=2" in capsys.readouterr().err
