"""Trains a network whose steps change their size at random, each size twice in a row.

    python train_new_sizes.py gpt|detector|packed SIZES OUT

One thread, fixed seeds; sizes as in sized_job.py, scaled down to what a CPU trains in tenths of a
second. OUT gets the seconds of each step (processor time of the thread that trains), a digest of
what was trained, and the bytes that no schedule can do without.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from repeated_network import said, train_step
from sized_job import image_size, packed_size, sizes, text_size

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from networks.basic import Gpt
from networks.vision import Detector


def text(model: Gpt, rows: int, length: int, data: torch.Generator) -> list[torch.Tensor]:
    model.batch_size, model.length = rows, length
    return model.batch(0, data)


GPT = {"vocabulary": 256, "width": 128, "heads": 4, "depth": 4, "length": 512}
# By name: how it is made, how sizes are drawn, and what makes a batch of one.
JOBS: dict[str, tuple[Callable, Callable, Callable]] = {
    "gpt": (lambda: Gpt(**GPT), text_size,
            lambda model, size, data: text(model, size[0] // 4, size[1] // 2, data)),
    "packed": (lambda: Gpt(**GPT), packed_size,
               lambda model, size, data: text(model, size[0], size[1] // 8, data)),
    "detector": (lambda: Detector(width=16, levels=4, depth=2), image_size,
                 lambda model, size, data: model.batch_of(*size, data)),
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
        batch = batch_of(model, size, data)
        batch_bytes = max(batch_bytes, sum(each.nbytes for each in batch))
        start = time.thread_time()
        losses.append(train_step(model, optimizer, batch))
        seconds.append(time.thread_time() - start)
    out.write_text(said(model, optimizer, losses, seconds, batch_bytes))


if __name__ == "__main__":
    main()
