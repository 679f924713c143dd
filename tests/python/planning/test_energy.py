"""What a followed plan takes in energy."""

import gzip
import json

import pytest
from tidepool.planning import energy

LINES = [{"tidepool_trace": 1, "name": "t", "device": "cpu"},
         {"op": "a", "ns": 10, "out": [[0, 100]]}, {"op": "tidepool::cut", "ns": 7},
         {"op": "b", "ns": 30, "in": [0], "out": [[1, 100]]}, {"end": 3}]
TABLE = {"watts": 2, "operators": {"b": 4}, "joules_per_byte": 1e-9}


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_the_last_iteration_counts_with_its_replays_and_copies(tmp_path, compress):
    trace = tmp_path / "trace"
    trace.write_bytes(compress("".join(json.dumps(line) + "\n" for line in LINES).encode()))
    base = 10 * 2 + 30 * 4
    assert energy.of_history(trace, ["iteration 1", "1 replay 0"], TABLE) == (base + 20) / base
    history = ["iteration 1", "1 replay 0", "iteration 2", "1 evict 0 0", "1 replay 1", "1 copy 50"]
    assert energy.of_history(trace, history, TABLE) == pytest.approx((base + 120 + 50) / base)
