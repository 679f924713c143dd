"""What operators without tensors make can be evicted."""

import json

import harness
import pytest

MAKING = """
import json
import torch
import tidepool

SIZE = 1 << 14
x = torch.randn(SIZE)
ways = {
    "arange": lambda: torch.arange(SIZE),
    "arange of floats": lambda: torch.arange(0, 1, 1 / SIZE),
    "eye": lambda: torch.eye(128),
    "linspace": lambda: torch.linspace(0, 1, SIZE),
    "logspace": lambda: torch.logspace(0, 1, SIZE),
    "range": lambda: torch.range(1, SIZE),
    "randperm": lambda: torch.randperm(SIZE),
    "hann_window": lambda: torch.hann_window(SIZE),
    "an output without bytes": lambda: torch.add(x, 1, out=torch.empty(0)),
}
for name, make in ways.items():
    before = tidepool.stats()["devices"]["cpu"]
    made = make()
    after = tidepool.stats()["devices"]["cpu"]
    roots = [sum(each["root_bytes"].values()) for each in (before, after)]
    print(json.dumps({"name": name, "roots": roots[1] - roots[0],
                      "allocated": after["allocated_bytes"] - before["allocated_bytes"]}))
    del made
"""


@pytest.mark.torch_floor
def test_what_is_made_from_nothing_can_be_evicted():
    said = [json.loads(line) for line in harness.lines_of(MAKING)]
    assert len(said) == 9
    for each in said:
        assert each["allocated"] >= 4 << 14, each
        assert each["roots"] <= 64, each
