"""Calls an operator on lists whose elements are alike, or not: list_jobs.py CASE.

Each case has 16 tensors of 256 KiB.
"""

import sys

import torch

COUNT, ELEMENTS = 16, 65536


def alike() -> list[torch.Tensor]:
    return [torch.zeros(ELEMENTS, device="cuda") for _ in range(COUNT)]


def types() -> list[torch.Tensor]:
    """Return tensors of which one has another type, and as many bytes."""
    return [*alike()[1:], torch.zeros(ELEMENTS // 2, dtype=torch.float64, device="cuda")]


def strides() -> list[torch.Tensor]:
    """Return tensors of which one shows half of its bytes."""
    return [*alike()[1:], torch.zeros(ELEMENTS, device="cuda")[::2]]


torch._foreach_norm({"alike": alike, "types": types, "strides": strides}[sys.argv[1]]())
torch.cuda.synchronize()
