"""Long loops whose lineage would grow without end if nothing bounded it.

Usage: limit_jobs.py NAME STEPS

Runs with Tidepool or without. Prints {"samples": [...], "evicted": int, "digest": text}: samples of
memory and lineage at equal distances, storages evicted at the end, and a digest of the results,
which are read after that. The results are those of the loop, and others computed from them last:
what a limit has cut off from its lineage cannot be evicted any more.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

SAMPLES = 40
FIRST_SAMPLE = 3  # before any limit is reached
TREES = 4
COUNTS = ("values", "records", "storages", "lineage_bytes")


def attached_plugin():
    """Return the plugin of this process, None without Tidepool."""
    if "tidepool" not in sys.modules:
        return None
    from tidepool.job import _job

    job = _job.current()
    return job.plugin if job else None


def sample() -> dict[str, int]:
    """Return resident memory in KiB, and how much lineage is alive."""
    status = Path("/proc/self/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0])
    plugin = attached_plugin()
    statistics = plugin.statistics()["cpu"] if plugin else {}
    return {"resident_kib": resident, **{key: statistics.get(key, 0) for key in COUNTS}}


def multiply(steps: int) -> Iterator[list[torch.Tensor]]:
    """Run `y = y * 1`: a chain without end, from a root that stays."""
    x = y = torch.arange(16.0)
    for _ in range(steps):
        y = y * 1
        yield [x, y]


def total(steps: int) -> Iterator[list[torch.Tensor]]:
    """Run `total += loss`: versions without end of one storage."""
    x, total = torch.arange(8.0), torch.zeros(())
    for _ in range(steps):
        total += (x * 2).sum()  # integers below 2^24: exact
        yield [total]


def tree(steps: int) -> Iterator[list[torch.Tensor]]:
    """Sum so many leaves by pairs: not deep, but wide."""
    partial: list[tuple[int, torch.Tensor]] = []
    for k in range(steps):
        level, value = 0, torch.full((), float(k), dtype=torch.float64)
        while partial and partial[-1][0] == level:
            level, value = level + 1, partial.pop()[1] + value
        partial.append((level, value))
        yield [value for _, value in partial]


def forest(steps: int) -> Iterator[list[torch.Tensor]]:
    """Grow several such trees, one after another, and keep the sum of the last one only."""
    for remaining in reversed(range(TREES)):
        for tops in tree(steps):  # noqa: B007  the last is wanted
            pass
        top = torch.stack(tops).sum()
        del tops
        if remaining:
            del top
            yield []
    yield [top]


def _train(steps: int, make_optimizer: Callable) -> Iterator[list[torch.Tensor]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 1))
    optimizer = make_optimizer(model.parameters())
    x, average = torch.randn(8, 16), torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        average = average * 0.9 + loss.detach() * 0.1
        state = [v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v)]
        yield [average, *(p.detach() for p in model.parameters()), *state]


def sgd(steps: int) -> Iterator[list[torch.Tensor]]:
    """Take steps of SGD with momentum."""
    return _train(steps, lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9, foreach=False))


def adam(steps: int) -> Iterator[list[torch.Tensor]]:
    """Take steps of Adam in a loop over the parameters."""
    return _train(steps, lambda p: torch.optim.Adam(p, lr=1e-4, foreach=False))


JOBS = {job.__name__: job for job in (multiply, total, tree, forest, sgd, adam)}


def main() -> None:
    name, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    samples, results = [], []
    count = TREES if name == "forest" else steps
    distance = max(1, count // SAMPLES)
    for k, results in enumerate(JOBS[name](steps), 1):  # noqa: B007
        if k % distance == 0 or k == FIRST_SAMPLE:
            samples.append(sample())
    results = [*results, *(tensor * 2 for tensor in results)]
    plugin = attached_plugin()
    evicted = plugin.evict_all() if plugin else 0
    digest = hashlib.sha256()
    for tensor in results:
        digest.update(tensor.contiguous().numpy().tobytes())
    print(json.dumps({"samples": samples, "evicted": evicted, "digest": digest.hexdigest()}))


if __name__ == "__main__":
    main()
