"""What operators without tensors make can be evicted, and with it all that is computed from it."""

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
    "outputs without bytes": lambda: torch.sort(x, out=(torch.empty(0),
                                                        torch.empty(0, dtype=torch.long))),
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
    assert len(said) == 10
    for each in said:
        assert each["allocated"] >= 4 << 14, each
        assert each["roots"] <= 64, each


# Chains longer than lineage may be, of which every 128th result is a root that dies soon.
LONG_CHAIN = """
import json
import torch
import tidepool

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(64, 256)
layers = [torch.nn.Linear(256, 256) for _ in range(4)]
for number in range(200):
    x = x + torch.tanh(layers[number % 4](x)) / 8
devices = tidepool.stats()["devices"]["cpu"]
print(json.dumps({"allocated": devices["allocated_bytes"],
                  "lost": devices["root_bytes"]["lost_root"]}))
x.sum().backward()
"""


def test_long_chains_can_be_evicted():
    said = json.loads(harness.lines_of(LONG_CHAIN)[0])
    assert said["allocated"] > 200 * (64 * 256 * 4)
    assert said["lost"] < said["allocated"] / 100
