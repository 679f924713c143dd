"""Train a few steps and print every allocation and free that PyTorch made on the way.

Usage: sequence_job.py stock|tidepool LOG_LIBRARY

Prints {"events": [...], "requested": [...], "loss": text}. An event is ["allocate", units of 64
bytes] or ["free", number of the allocation that is freed]; `requested` are the exact sizes.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys

import torch
from torch import nn

UNIT = 64


def read_text(function) -> str:
    """Return the text of a C function that fills a buffer and says how much it needs."""
    function.restype, function.argtypes = ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(function(None, 0))
    assert function(out, len(out)) == len(out)
    return out.value.decode()


def train(steps: int = 3) -> str:
    """Train a small network with convolution, normalization, dropout and attention."""
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Flatten(2), nn.Linear(64, 32), nn.GELU(), nn.Dropout(0.2))
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    head = nn.Sequential(nn.LayerNorm(32), nn.Flatten(), nn.Linear(8 * 32, 10))
    model = nn.Sequential(body, layer, head)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    average = torch.zeros(())
    for _ in range(steps):
        images, labels = torch.randn(16, 3, 16, 16) * 0.5, torch.randint(0, 10, (16,))
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average = average * 0.9 + loss.detach() * 0.1
    return f"{average.item():.17g}"


def number_events(lines: list[str]) -> tuple[list[list], list[int]]:
    """Return the events with frees named by their allocation, and the sizes asked for."""
    events, sizes, living = [], [], {}
    for line in lines:
        kind, address, *size = line.split()
        if kind == "allocate":
            living[address] = len(sizes)
            sizes.append(int(size[0]))
            events.append(["allocate", -(-sizes[-1] // UNIT)])
        elif kind == "free" and address in living:  # else: memory from before the log
            events.append(["free", living.pop(address)])
    return events, sizes


def main() -> None:
    mode, library = sys.argv[1:]
    torch.set_num_threads(1)
    gc.collect()
    gc.disable()
    plugin = None
    if mode == "tidepool":
        from tidepool.job import _plugin

        plugin = _plugin.load()
        plugin.attach({"device": "cpu", "budget_bytes": 1 << 30, "planning": "off",
                       "log_allocations": True})
    log = ctypes.CDLL(library)
    log.allocation_log_install(int(plugin is None))
    loss = train()
    lines = read_text(log.allocation_log_text).splitlines()
    events, sizes = number_events(lines)
    evictions = 0
    if plugin is not None:
        events, _ = number_events(read_text(plugin.library.tidepool_allocation_log).splitlines())
        evictions = plugin.statistics()["cpu"]["evictions"]
    print(json.dumps({"events": events, "requested": sizes, "loss": loss,
                      "evictions": evictions}))


if __name__ == "__main__":
    main()
