"""Trains a GPT on the stand-in CUDA device in virtual time, and prints what its steps took.

    python timed_job.py STEPS

One line of JSON on standard output has, for every step, its virtual nanoseconds, for how many of
these the device had work that waited for copies, and how long the host has waited; what the job has
all the time and at most; and Tidepool's counts at the end of each step. No byte of the device is
touched, so that a GPT of some size costs nothing.
"""

import atexit
import json
import os
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "support"))

import standin  # noqa: E402
import torch  # noqa: E402
from networks.basic import Gpt  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

device = standin.Device()
SIZES = {"vocabulary": 1000, "width": 768, "heads": 12, "depth": 3, "length": 128, "batch": 16}


def times() -> dict[str, int]:
    """Return virtual times, with the job's own work done, which is when a job could read a loss."""
    torch.cuda.current_stream().synchronize()
    return {"ns": device.host_time_ns(), "stalled_ns": device.stream_stalled_ns(),
            "waited_ns": device.host_waited_ns()}


def counts() -> dict[str, object]:
    """Return Tidepool's counts for the device."""
    tidepool = sys.modules.get("tidepool")
    return tidepool.stats()["devices"].get("cuda:0", {}) if tidepool else {}


def main() -> None:
    torch.manual_seed(0)
    data = torch.Generator().manual_seed(1)
    model = Gpt(**SIZES).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    steps, said = [], []
    before = times()
    for number in range(int(sys.argv[1])):
        batch = [each.cuda() for each in model.batch(number, data)]
        optimizer.zero_grad()
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        now = times()
        steps.append({key: now[key] - before[key] for key in now})
        said.append(counts())
        before = now
    kept = [batch, *((each, each.grad, optimizer.state[each]) for each in model.parameters())]
    fixed = sum(leaf.nbytes for leaf in tree_leaves(kept)
                if isinstance(leaf, torch.Tensor) and leaf.is_cuda)
    print(json.dumps({"steps": steps, "tidepool": said, "fixed": fixed,
                      "allocated_peak": torch.cuda.max_memory_allocated()}), flush=True)
    atexit._run_exitfuncs()  # a trace is written to its end
    os._exit(0)  # see value_jobs.py


if __name__ == "__main__":
    main()
