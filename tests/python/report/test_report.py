"""What a report's page shows: found from a small trace, and from the history of a run of it."""

import base64
import gzip
import json
import re
import sys
from types import SimpleNamespace

import pytest
from tidepool import cli
from tidepool.report import command, history, page, pins, trace_reader, views
from tidepool.report.trace_reader import (
    ACTIVATIONS,
    EVICTED,
    GRADIENTS,
    INPUTS,
    KEPT,
    OPTIMIZER,
    PARAMETERS,
)

# One step: b is made of the input, c of b, which is evicted meanwhile and made again for d; numpy()
# is called on e. Then the optimizer reads the gradient d, and updates parameter and state.
TRACE = """\
{"tidepool_trace":1,"name":"tiny","device":"cpu","alignment":1,"copy_bytes_per_ns":2}
{"root":0,"bytes":64,"kind":"parameter"}
{"root":1,"bytes":64,"kind":"optimizer_state"}
{"root":2,"bytes":32}
{"place":0,"at":{"lines":["train.py:1 main","model.py:2 Net.forward"],"module":"Net.a"}}
{"op":"aten::f","ns":100,"in":[0,2],"out":[[3,128]],"place":0}
{"op":"aten::g","ns":200,"in":[3],"out":[[4,128]]}
{"op":"aten::h","ns":300,"in":[3],"out":[[5,64]]}
{"op":"aten::e","ns":50,"in":[4],"out":[[6,16]]}
{"op":"tidepool::cut","ns":0,"write":[[6,"update"]],"recordable":false}
{"op":"aten::reads_it","ns":10,"in":[6],"out":[[7,16]]}
{"release":3}
{"release":4}
{"op":"aten::lerp_","ns":20,"in":[5],"write":[[1,"update"]],"recordable":false}
{"op":"aten::sqrt","ns":20,"in":[1],"out":[[8,64]]}
{"op":"aten::addcdiv_","ns":20,"in":[1,8],"write":[[0,"update"]],"recordable":false}
{"step":1}
{"end":17}
"""

HISTORY = """\
iteration 1
0 hold 512
0 allocate 0 64
0 place 0 0
iteration 2
0 allocate 64 128
0 place 3 64
1 evict 3 64
1 free 64
1 allocate 256 128
1 place 4 256
1 replay 0
1 allocate 64 128
1 restore 3 64
2 allocate 192 64
2 place 5 192
2 allocate 384 128
2 evict 4 256
2 copy 128
2 restore 4 384
2 free 256
4 free 64
4 free 384
"""


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "tiny.jsonl.gz"
    path.write_bytes(gzip.compress(TRACE.encode()))
    return trace_reader.read_trace(path)


@pytest.fixture
def past(trace, tmp_path, monkeypatch):
    """Return the history that a stand-in for tidepool-replay writes."""
    program = tmp_path / "replay"
    program.write_text(f"""#!{sys.executable}
import sys
open(sys.argv[sys.argv.index("--history") + 1], "w").write({HISTORY!r})
print('{{"status": "ok", "overhead": 1.1, "remapped_bytes": 0}}')
""")
    program.chmod(0o755)
    monkeypatch.setattr(history, "PROGRAM", program)
    return history.record(trace, trace.path, 512, 2, tmp_path)


def test_roles_are_found_where_the_trace_does_not_say_them(trace):
    roles = [storage.role for storage in trace.storages]
    assert roles == [PARAMETERS, OPTIMIZER, INPUTS, ACTIVATIONS, ACTIVATIONS, GRADIENTS,
                     ACTIVATIONS, ACTIVATIONS, ACTIVATIONS]  # the last: made by the optimizer
    assert trace.steps == 1 and trace.events == 17


def test_results_that_pass_for_parameters_are_results(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text("""\
{"tidepool_trace":1,"name":"t","device":"cpu","alignment":1}
{"op":"aten::f","ns":1,"out":[[0,8],[1,8],[2,8]]}
{"op":"tidepool::cut","ns":0,"write":[[0,"update"]],"recordable":false}
{"op":"own::g","ns":1,"in":[0],"recordable":false}
{"role":0,"kind":"parameter"}
{"role":1,"kind":"parameter"}
{"role":2,"kind":"parameter"}
{"op":"aten::add_","ns":1,"write":[[1,"update"]]}
{"release":0}
{"release":1}
{"end":9}
""")
    trace = trace_reader.read_trace(path)
    # The second is updated, and the third lives on, as a frozen parameter does.
    assert [each.role for each in trace.storages] == [ACTIVATIONS, PARAMETERS, PARAMETERS]
    assert pins.reason_of(trace, 0) == "operand"  # of an operator of which nothing is known


def test_what_stays_has_a_reason(trace):
    reasons = [pins.reason_of(trace, number) for number in range(len(trace.storages))]
    assert reasons == ["parameters", "optimizer state", "inputs", "", "", "", "address",
                       "reads address", ""]
    assert {reason for reason in reasons if reason} <= pins.REASONS.keys()
    assert pins.group_of(trace, 3) == (ACTIVATIONS, "aten::f", 0, "")
    assert pins.group_of(trace, 0) == (PARAMETERS, "", 0, "parameters")  # where it is used first


START = b'{"tidepool_trace":1,"name":"a","device":"cpu"}\n'


@pytest.mark.parametrize("content, said", [
    (b"", "is empty"), (b"no json\n", "is neither a trace"),
    (START + b'{"end":0}\n', "has no operators"), (b'{"release":5}\n', "is neither a trace"),
    (START + b'{"op":"x"', "line 2: "), (START + b"[" * 100_000, "line 2: "),
    (START + b"5", "line 2: is no line of a trace"),
    (START.replace(b"1", b"99"), "line 1: unknown version 99; expected one of 1, 2"),
    (b'{"tidepool_trace":1}\n', "line 1: lacks 'name'"),
    (b"\x1f\x8b broken", ""), (gzip.compress(START, mtime=0)[:-9], "ended before")])
def test_what_is_no_trace_is_refused(tmp_path, content, said):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(trace_reader.TraceError, match=rf"bad\.jsonl: .*{said}"):
        trace_reader.read_trace(path)


def test_the_first_steps_of_a_trace_are_a_trace(tmp_path, trace):
    to = tmp_path / "first.jsonl.gz"
    trace.path.write_bytes(gzip.compress(
        TRACE.replace('{"end":17}', '{"release":5}\n{"step":2}\n{"end":19}').encode()))
    trace_reader.cut_after_steps(trace, 1, to)
    assert gzip.decompress(to.read_bytes()).decode() == TRACE.replace('"end":17', '"end":16')


def test_a_history_is_the_last_iteration(past):
    names = [past.groups[group][1] for group in past.loss_groups]
    assert names == ["aten::f", "aten::f"]  # evicted and restored; the move is neither
    assert list(past.loss_bytes) == [128, -128]
    assert list(past.loss_ns) == [0, 100]
    assert (past.moves, past.moved_bytes) == (1, 128)
    assert past.end_ns == 720 + 100 + 128 // 2  # operators, a replay, a copy
    assert past.step_ends == [past.end_ns]
    (group, storages, most, size, cost, causes), = views.details(SimpleNamespace(
        operators=_operators(), storages=_storages()), past)
    assert past.groups[group][:2] == (ACTIVATIONS, "aten::f")
    assert (storages, most, size, cost) == (1, 1, 128, 100)
    assert causes == [["aten::h", -1, 1]]  # who reads it next


def test_replays_are_charged_to_what_they_bring_back(trace):
    found = history.History(512)
    reader = history._Reader(trace, found)
    for line in ("iteration 1", "0 allocate 0 128", "0 place 3 0", "1 allocate 128 128",
                 "1 place 4 128", "1 evict 3 0", "1 free 0", "1 evict 4 128", "1 free 128",
                 "1 replay 2", "1 replay 0", "1 allocate 0 128", "1 restore 3 0",
                 "1 replay 1", "1 allocate 128 128", "1 restore 4 128"):
        reader.add(line)
    reader.finish()
    # What call 2 made does not come back itself: it was made for the next one.
    assert list(found.loss_ns) == [0, 0, 300 + 100, 200]
    assert list(found.replay_calls) == [2, 0, 1]


def _operators():
    names = ("aten::f", "aten::g", "aten::h")
    return [SimpleNamespace(name=name, place=-1, cost_ns=100) for name in names]


def _storages():
    return [SimpleNamespace(maker=0, bytes=128)] * 9


def test_memory_is_shown_at_the_fullest_moments(trace, past):
    shown = views.view(trace, past, 0, past.end_ns)
    resident = [sum(roles[k] for roles in shown["roles"][:EVICTED])
                for k in range(views.BUCKETS)]
    # At most there were a parameter, both results of 128, a gradient, and a block to move to.
    assert max(resident) == 64 + 128 + 128 + 64 + 128
    assert max(shown["roles"][EVICTED]) == 128
    (peak, _, _), = views._peaks(past, 0, past.end_ns, 1)
    assert peak == max(resident)
    assert max(shown["roles"][GRADIENTS]) == 64
    assert shown["roles"][KEPT][-1] == 0
    assert set(shown["held"]) == {512}
    assert len(shown["columns"]) == views.COLUMNS and len(shown["windows"]) == views.WINDOWS
    _, holders = shown["windows"][resident.index(max(resident)) // 12]
    held = {past.groups[group][1]: size for group, size, _ in
            zip(holders[::3], holders[1::3], holders[2::3], strict=True)}
    assert held["aten::f"] == 128 and held["aten::h"] == 64
    assert sum(shown["losses"][2::6]) == 1 and sum(shown["losses"][5::6]) == 100
    assert [sum(shown["replays"][k::3]) for k in (1, 2)] == [1, 100]


def test_a_part_of_the_time_has_its_own_sums(trace, past):
    early = views.view(trace, past, 0, 50)
    assert not early["losses"] and not early["replays"]
    late = views.view(trace, past, 830, past.end_ns)
    assert max(late["roles"][ACTIVATIONS]) == 0 and late["roles"][PARAMETERS][0] == 64


def test_steps_that_cannot_be_told_apart_share_buckets(trace, past):
    past.step_ends = list(range(1, 500))
    shown = views.view(trace, past, 0, past.end_ns)
    assert len(shown["times"]) == int(499 / 1.3)
    assert len(shown["columns"]) == views.COLUMNS and len(shown["windows"]) == views.WINDOWS
    past.step_ends = list(range(1, 110))
    shown = views.view(trace, past, 0, past.end_ns)
    assert len(shown["times"]) == len(shown["columns"]) == len(shown["windows"]) == views.WINDOWS


def test_a_column_has_each_block_at_its_address(past):
    state = views._State(past)
    while state.next < len(past.times) and not {0, 64, 192} <= state.there.keys():
        state.apply()
    runs = views._runs(state, 1)
    at, blocks = 0, []
    for gap, size in zip(runs[::3], runs[1::3], strict=True):
        blocks.append((at + gap, size))
        at += gap + size
    assert blocks == [(0, 64), (64, 128), (192, 64), (256, 128)]
    # Neighbours of one group that are smaller than a pixel are one.
    state.there = {0: (8, 1), 8: (8, 1), 20: (8, 1), 100: (8, 1), 200: (8, 2), 208: (8, 1)}
    assert views._runs(state, 16) == [0, 28, 1, 72, 8, 1, 92, 8, 2, 0, 8, 1]


def test_the_step_that_is_shown_has_the_most_evictions(past):
    assert views.step_to_show(past) is None  # one step is the whole
    past.step_ends = [10, 20, 30, 40]
    past.loss_times[:] = past.loss_times[:0]
    past.loss_bytes[:] = past.loss_bytes[:0]
    assert views.step_to_show(past) == 2
    past.loss_times.extend([5, 6, 7, 35])
    past.loss_bytes.extend([1, 1, 1, 1])
    assert views.step_to_show(past) == 3  # the first one has nothing before it


def test_a_page_needs_nothing_from_elsewhere(trace, past):
    content = {"name": "<tiny>", "budget": 512, "views": [views.view(trace, past, 0, 100)]}
    text = page.html(content)
    assert "{{" not in text.replace("{{{", "")
    assert "<title>&lt;tiny&gt;: memory under 512 B</title>" in text
    assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(""", text)
    assert "Permission is hereby granted, free of charge" in text
    packed = re.search(r'id="data">([^<]+)<', text)[1]
    data = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert data["views"] == json.loads(json.dumps(content["views"]))
    assert len(data["roles"]) == EVICTED + 1 and data["reasons"].keys() == pins.REASONS.keys()
    assert page.html(content) == text


def test_a_budget_is_a_size_or_a_share_or_the_least_that_costs_little():
    points = {size: SimpleNamespace(budget_bytes=size, runs=size > 20, overhead=1 + 1 / size)
              for size in (10, 25, 50, 100)}
    simulation = SimpleNamespace(points=points, peak_bytes=100)
    assert command._budget("2KiB", simulation) == 2048
    assert command._budget("45%", simulation) == 45
    assert command._budget(None, simulation) == 25
    for point in points.values():
        point.overhead = 2
    assert command._budget(None, simulation) == 100
    assert command._least(simulation) == "; the least budget tried that runs is 25 B"


def test_what_goes_wrong_is_said(tmp_path, capsys):
    assert cli.main(["report", str(tmp_path / "none.jsonl")]) == 1
    assert "none.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize("arguments, part", [
    (["--budget", "abc%"], "--budget 'abc%': expected"),
    (["--budget", "inf%"], "--budget 'inf%': expected"),
    (["--budget", "0"], "--budget '0': expected more than zero"),
    (["--budget", ""], "--budget '': expected a size"), (["-o", "/dev/null"], "of the system"),
    (["--budget", "8gb"], "--budget '8gb': unknown unit"),
    (["-o", "no/such/page.html"], "cannot write there"),
    (["-o", "script.py"], "exists and is no page")])
def test_what_would_fail_later_is_refused_at_once(tmp_path, monkeypatch, capsys, arguments, part):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("import torch\n")
    (tmp_path / "text").write_text("no trace\n")
    assert cli.main(["report", "text", *arguments]) == 1
    assert part in capsys.readouterr().err
    assert (tmp_path / "script.py").read_text() == "import torch\n"


def test_a_file_that_is_nothing_of_ours_is_named_as_such(tmp_path, capsys):
    (tmp_path / "stats.json").write_text('{\n  "state": "finished"\n}\n')
    assert cli.main(["report", str(tmp_path / "stats.json")]) == 1
    assert "neither a trace (tidepool run --trace) nor a recording" in capsys.readouterr().err


def test_pages_of_several_processes_have_names_of_their_own():
    names = ("out.jsonl.gz", "out.4711.jsonl.gz", "out.4711.jsonl", "run.rec", "run", ".gz")
    assert [command._ENDINGS.sub("", name) for name in names] == [
        "out", "out.4711", "out.4711", "run", "run", ""]
