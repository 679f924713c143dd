"""Trains a network whose steps change their size at random, each size twice in a row.

    python train_new_sizes.py gpt|detector|packed SIZES OUT

One thread, fixed seeds; sizes as in sized_job.py, scaled down to what a CPU trains in tenths of a
second. OUT gets the seconds of each step (processor time of the thread that trains), a digest of
what was trained, and the bytes that no schedule can do without.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from repeated_network import digest
from sized_job import image_size, packed_size, sizes, text_size

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from networks.basic import Gpt
from networks.vision import Detector

Batch = list[torch.Tensor]
WORDS = 256


def text(rows: int, length: int, data: torch.Generator) -> Batch:
    return [torch.randint(WORDS, (rows, length + 1), generator=data)]


def images(height: int, width: int, data: torch.Generator) -> Batch:
    corner = torch.rand(2, 4, 2, generator=data) * 0.5
    extent = torch.rand(2, 4, 2, generator=data) * 0.4 + 0.1
    return [torch.randn(2, 3, height, width, generator=data),
            torch.cat([corner, corner + extent], 2), torch.randint(3, (2, 4), generator=data)]


GPT = {"vocabulary": WORDS, "width": 128, "heads": 4, "depth": 4}
# By name: how it is made, how sizes are drawn, and what makes a batch of one.
JOBS: dict[str, tuple[Callable, Callable, Callable]] = {
    "gpt": (lambda: Gpt(**GPT, length=512), text_size,
            lambda size, data: text(size[0] // 4, size[1] // 2, data)),
    "packed": (lambda: Gpt(**GPT, length=512), packed_size,
               lambda size, data: text(size[0], size[1] // 8, data)),
    "detector": (lambda: Detector(width=16, levels=4, depth=2), image_size,
                 lambda size, data: images(*size, data)),
}


def main() -> None:
    job, count, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    gc.disable()  # so that every run frees what it frees at the same places
    make, draw_size, batch_of = JOBS[job]
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(1)
    seconds, losses, batch_bytes = [], [], 0
    for size in [each for each in sizes(draw_size, count) for _ in range(2)]:
        batch = batch_of(size, data)
        batch_bytes = max(batch_bytes, sum(each.nbytes for each in batch))
        start = time.thread_time()
        loss = model(*batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.thread_time() - start)
    parameters = list(model.parameters())
    state = [value for each in parameters for value in optimizer.state[each].values()]
    kept = [*parameters, *state, *model.buffers()]
    gradients = sum(each.grad.nbytes for each in parameters if each.grad is not None)
    out.write_text(json.dumps({"seconds": seconds, "digest": f"{losses} {digest(kept)}",
                               "fixed_bytes": sum(each.nbytes for each in kept) + gradients
                               + batch_bytes}))


if __name__ == "__main__":
    main()
