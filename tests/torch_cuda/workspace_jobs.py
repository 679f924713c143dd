"""Multiplies matrices for the first time on one stream after the other, with a full budget.

CUBLAS_WORKSPACE_CONFIG=:KIB:1 says how much workspace each stream wants. One line of JSON on
standard output has the values, where the workspaces are that PyTorch keeps, the largest tensor that
there is room for, what Tidepool did, races and misuses.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin

import value_kernels  # isort: skip  before torch
import torch
from remat_jobs import prints
from value_jobs import tidepool_says

device = standin.Device()
KIB = 1 << 10
PAGE = 64 * KIB
STREAMS = 8


def addresses(requested_bytes: int) -> list[int]:
    """Return where the allocated blocks are that were asked for with so many bytes, ascending."""
    blocks = [block for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]]
    return sorted(block["address"] for block in blocks if block["state"] == "active_allocated"
                  and block["requested_size"] == requested_bytes)


def largest_piece(most_pages: int) -> int:
    """Return the pages of the largest tensor that there is room for."""
    for pages in range(most_pages, 0, -1):
        try:
            torch.empty(pages * PAGE, dtype=torch.uint8, device="cuda")
            return pages
        except torch.OutOfMemoryError:
            pass
    return 0


def late_products() -> dict:
    """Return the values, where workspaces are, and the pages of the largest tensor possible."""
    workspace = int(os.environ["CUBLAS_WORKSPACE_CONFIG"].split(":")[1]) * KIB
    x = torch.randn(128 * KIB, device="cuda")
    square = x[:64 * 64].view(64, 64)
    kept, products = [], []
    for _ in range(STREAMS):
        kept += [x.sin().mul_(len(kept) + i) for i in range(12)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            products.append(square.mm(square))
        torch.cuda.current_stream().wait_stream(side)
    said = tidepool_says()
    return {"tidepool": said, "places": addresses(workspace),
            "largest_pages": largest_piece(said.get("budget_bytes", 0) // PAGE),
            "prints": prints(*kept, *products)}  # restores products on the default stream


def main() -> None:
    kernels = value_kernels.install()
    torch.zeros(1, device="cuda")
    device.watch_allocator()
    kernels.watch()
    torch.manual_seed(0)
    print(json.dumps({**late_products(), "used_peak": device.used_peak_bytes(),
                      "races": device.races(), "misuses": device.misuses()}), flush=True)
    os._exit(0)  # as the other jobs do


if __name__ == "__main__":
    main()
