"""Multiplies matrices with TF32 allowed, also within an operator of PyTorch's that forbids it.

One line of JSON on standard output has the products by their names in the stand-in's log, in their
order: those of the job, those that bring their results back, and how many storages were evicted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin

from remat_jobs import evict_all  # isort: skip  before torch
import torch

device = standin.Device()


def products(since: int) -> list[str]:
    """Return the products since so many operations in the log."""
    names = [line.split()[4].lower() for line in device.log()[since:]]
    return ["tf32" if name.endswith("-tf32") else "full" for name in names if "gemm" in name]


def main() -> None:
    torch.set_float32_matmul_precision("high")
    x = torch.zeros(64, 64, device="cuda")
    begin = len(device.log())
    beside = x @ x
    within = torch.linalg.matrix_power(x, 2)
    made = products(begin)
    evicted = evict_all()
    begin = len(device.log())
    within.sum()
    torch.linalg.matrix_power(beside, 2)  # brings `beside` back within
    print(json.dumps({"made": made, "again": products(begin), "evicted": evicted}))


if __name__ == "__main__":
    main()
