"""A training script whose budget changes at random moments, on its own thread and on another.

    python changing_job.py --out digests.json --steps 200 gpt:sgd [--least BYTES --most BYTES]

Without sizes it trains alone, whether Tidepool is attached or not. It writes each step's digests
as `train_job.py` does. The first step has the least budget, whatever the threads' pace. From the
return of each call on, no more may be held than it said.
"""

import argparse
import json
import random
import sys
import threading
from pathlib import Path

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from train_job import counters, run_case

CHANCE_PER_MODULE = 0.02
PAUSE_SECONDS = 0.02  # at most, between two changes on the other thread


class Budgets:
    """Sets budgets between two sizes; two threads may."""

    def __init__(self, least: int, most: int) -> None:
        self.range = (least, most)
        self.lock = threading.Lock()  # so that what is held is compared with the newest budget
        self.chance = random.Random(7)
        self.changes = {"own thread": 0, "other thread": 0}
        self.refusals = 0
        self.problem = ""
        self.begun, self.over = threading.Event(), threading.Event()

    def change(self, where: str, budget: int | None = None) -> None:
        """Set a budget, by chance if none is given."""
        import tidepool

        with self.lock:
            try:
                allowed = tidepool.set_budget(budget or self.chance.randint(*self.range))
            except torch.OutOfMemoryError:
                self.refusals += 1
                return
            held = counters()["reserved_bytes"]
            if held > allowed:
                self.problem = f"{held} bytes are held under a budget of {allowed}"
            self.changes[where] += 1

    def at_module(self, *_: object) -> None:
        if self.begun.is_set() and self.chance.random() < CHANCE_PER_MODULE:
            self.change("own thread")

    def after_step(self, *_: object) -> None:
        self.begun.set()

    def keep_changing(self) -> None:
        self.begun.wait()
        pauses = random.Random(8)
        while not self.over.wait(pauses.random() * PAUSE_SECONDS):
            self.change("other thread")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", metavar="network:mode")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--size", choices=("chaos", "budget"), default="budget")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--least", type=int)
    parser.add_argument("--most", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.least is None:
        result = run_case(options.case, options)
    else:
        budgets = Budgets(options.least, options.most)
        budgets.change("own thread", options.least)
        other = threading.Thread(target=budgets.keep_changing)
        other.start()
        handles = [register_module_forward_pre_hook(budgets.at_module),
                   register_optimizer_step_post_hook(budgets.after_step)]
        try:
            result = run_case(options.case, options)
        finally:
            for handle in handles:
                handle.remove()
            budgets.over.set()
            budgets.begun.set()
            other.join()
        result |= {"changes": budgets.changes, "refusals": budgets.refusals,
                   "problem": budgets.problem}
    options.out.write_text(json.dumps(result))


if __name__ == "__main__":
    sys.exit(main())
