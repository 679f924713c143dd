"""Runs a training script that knows nothing of this, and says what became of what it trained.

    python watched_script.py FOLDER SCRIPT.py [ARGUMENT...]
    python watched_script.py FOLDER -m MODULE [ARGUMENT...]

Random numbers are seeded, also NumPy's where a script asks for ones that differ from run to run,
and PyTorch has one thread. After each step of an optimizer its parameters
are hashed. When the script ends, a line of JSON in FOLDER/RANK has that digest, the number of
steps, the seconds that all but the first took, and with Tidepool attached the most bytes that there
were, the least after a step, what was done to keep the budget, and which share of those seconds
searches and replays took.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import runpy
import sys
import time
from pathlib import Path

import numpy
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from tensor_bytes import bytes_of

KEPT = ("allocated_peak_bytes", "reserved_peak_bytes", "budget_bytes", "evictions",
        "operators_replayed", "replay_ns", "search_ns", "offloads", "contents_compared",
        "contents_different")


class Watch:
    """What has been seen of a script."""

    def __init__(self) -> None:
        self.made = hashlib.sha256()
        self.steps = 0
        self.least: int | None = None
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    def stepped(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """Take in what a step of an optimizer left."""
        self.steps += 1
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
                self.made.update(bytes_of(local))
        memory = statistics()
        self.ended = {"seconds": time.perf_counter(), **{
            key: memory[f"{key}_ns"] / 1e9 for key in ("search", "replay") if memory}}
        self.began = self.began or self.ended
        if memory and self.steps > 1:  # the first makes the optimizer's state
            now = memory["allocated_bytes"]
            self.least = now if self.least is None else min(self.least, now)

    def said(self) -> dict:
        """Return all of it."""
        memory = statistics()
        took = {key: self.ended[key] - self.began[key] for key in self.ended}
        return {"steps": self.steps, "digest": self.made.hexdigest(), "least": self.least, **took,
                "memory": memory and {key: memory[key] for key in KEPT if key in memory}}


def statistics() -> dict | None:
    """Return the statistics of the CPU; nothing without Tidepool."""
    tidepool = sys.modules.get("tidepool")
    return tidepool.stats()["devices"].get("cpu") if tidepool else None


def main() -> None:
    folder, target, *arguments = sys.argv[1:]
    for seed in (random.seed, numpy.random.seed, torch.manual_seed):
        seed(0)
    seeded = numpy.random.default_rng
    numpy.random.default_rng = lambda seed=None: seeded(0 if seed is None else seed)
    torch.set_num_threads(1)
    watch = Watch()
    register_optimizer_step_post_hook(watch.stepped)
    try:
        if target == "-m":
            sys.argv = arguments
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [target, *arguments]
            sys.path[0] = str(Path(target).parent)
            runpy.run_path(target, run_name="__main__")
    finally:
        Path(folder, os.environ.get("RANK", "0")).write_text(json.dumps(watch.said()) + "\n")


if __name__ == "__main__":
    main()
