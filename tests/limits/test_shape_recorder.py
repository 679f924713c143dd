"""Traces of shapes: what they have of a small job, worked out by hand; and the shipped corpus."""

import gzip
import json
import subprocess
import sys

import pytest
import torch
from limits_support import ROOT, TIMEOUT_SECONDS
from tidepool.job import _plugin

sys.path.insert(0, str(ROOT / "bench"))
import corpus
from shape_recorder import DeviceFigures, ShapeRecorder

REPLAY = _plugin.LIBRARY_FOLDER / "tidepool-replay"
CORPUS = ROOT / "bench" / "traces"
FIGURES = DeviceFigures(bytes_per_ns=1, flops_per_ns=10, operator_ns=100)


@pytest.fixture
def recorder(tmp_path):
    return ShapeRecorder(tmp_path / "trace.jsonl", "hand", FIGURES)


def lines_of(recorder: ShapeRecorder, *, costs=False) -> list[dict]:
    lines = [json.loads(line) for line in recorder._trace._path.read_text().splitlines()]
    kept = ("site", "ns") if not costs else ("site",)
    return [{k: v for k, v in line.items() if k not in kept} for line in lines[1:]]


def test_operators_storages_and_deaths(recorder):
    weight = torch.empty(8, 4, device="meta")
    with recorder:
        recorder.name_storages([weight], "parameter")
        x = torch.zeros(2, 8, device="meta")
        y = x @ weight
        del x
        y.t().add_(1)  # a view: its storage is written
        recorder.name_storages([], "input")
    assert lines_of(recorder, costs=True) == [
        {"root": 0, "bytes": 128, "kind": "parameter"},
        {"op": "aten::zeros", "ns": 164, "out": [[1, 64]]},
        # 64 + 128 + 32 bytes move; 2 * 2 * 8 * 4 operations take 13 ns.
        {"op": "aten::mm", "ns": 324, "in": [1, 0], "out": [[2, 32]]},
        {"release": 1},
        {"op": "aten::add_.Tensor", "ns": 164, "write": [[2, "update"]]},
        {"end": 5}]


def test_memory_that_is_filled_is_a_result_and_memory_partly_filled_a_root(recorder):
    with recorder:
        torch.empty(4, device="meta").normal_()
        part = torch.empty(4, device="meta")
        part[:2].zero_()
        part.zero_()
    assert lines_of(recorder) == [
        {"op": "aten::normal_", "out": [[0, 16]], "draws": True}, {"release": 0},
        {"root": 1, "bytes": 16}, {"op": "aten::zero_", "write": [[1, "update"]]},
        {"op": "aten::zero_", "write": [[1, "overwrite"]]}, {"end": 5}]


def test_optimizers_side_effects_and_what_comes_from_the_host(recorder):
    mean, variance = (torch.empty(3, device="meta") for _ in range(2))
    with recorder:
        x = torch.ones(2, 3).to("meta")
        torch.nn.functional.batch_norm(x, mean, variance, training=True)
        with recorder.optimizing():
            mean.add_(1)
        assert torch.ones(2, device="meta").nonzero().shape == (1, 1)
    lines = lines_of(recorder)
    assert lines[0] == {"op": "aten::_to_copy", "out": [[0, 24]], "recordable": False}
    norm = next(line for line in lines if line.get("op") == "aten::native_batch_norm")
    assert norm["write"] == [[1, "side"], [2, "side"]]
    assert {"op": "aten::add_.Tensor", "write": [[1, "update"]], "recordable": False} in lines
    assert {"step": 1} in lines


def test_nothing_is_recorded_in_a_pause(recorder):
    with recorder:
        with recorder.paused():
            kept = torch.ones(4, device="meta") + 1
        kept.mul(2)
    assert lines_of(recorder) == [
        {"root": 0, "bytes": 16}, {"op": "aten::mul.Tensor", "in": [0], "out": [[1, 16]]},
        {"release": 1}, {"end": 3}]


def test_the_least_cost_of_several_rounds():
    def part(*costs):
        return [{"op": "f", "ns": cost} for cost in costs] + [{"step": 1}]

    lines = [{"tidepool_trace": 1}, *part(5, 9), *part(7, 2), {"end": 6}]
    assert corpus.least_costs(lines, 1) == [
        {"tidepool_trace": 1}, {"op": "f", "ns": 5}, {"op": "f", "ns": 2}, {"step": 1}, {"end": 3}]
    with pytest.raises(ValueError, match="differ"):
        corpus.least_costs([{}, *part(1), *part(1, 2), {"end": 5}], 1)


def test_the_corpus_is_whole_small_and_readable():
    names = corpus.networks()
    assert len(names) == len(set(names)) >= 16
    paths = [CORPUS / scale / f"{name}.jsonl.gz" for scale in corpus.SCALES for name in names]
    assert sorted(paths) == sorted(CORPUS.glob("*/*.gz"))
    assert sum(path.stat().st_size for path in paths) < 4 << 20
    # Numbers that dead tensors leave behind need a few bytes more than the peak.
    done = subprocess.run([str(REPLAY), *map(str, paths), "--json", "--budget-ratio", "1.01",
                           "--memory", "exact"], text=True, capture_output=True,
                          timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(runs) == len(paths)
    assert all(run["status"] == "ok" and run["overhead"] == 1 for run in runs)
    several = [path for path in paths if gzip.decompress(path.read_bytes()).count(b'"step":') > 2]
    assert len(several) >= 8
