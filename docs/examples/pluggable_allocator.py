"""Train with Tidepool's arena behind torch.cuda.memory.CUDAPluggableAllocator.

    python docs/examples/pluggable_allocator.py [BUDGET]

Only the caching allocator with a budget, through PyTorch's public interface: no plugin for this
PyTorch version is needed. docs/pluggable.md says what it can and cannot do.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import tidepool
import torch
from torch import nn

LIBRARY = Path(tidepool.__file__).parent / "lib" / "libtidepool_pluggable.so"
HOOKS = {  # PyTorch's setter: our function
    "set_init_fn": "tidepool_init",
    "set_reset_fn": "tidepool_reset",
    "set_memory_fraction_fn": "tidepool_memory_fraction",
    "set_base_alloc_fn": "tidepool_base_alloc",
    "set_record_stream_fn": "tidepool_record_stream",
    "set_begin_allocate_to_pool": "tidepool_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "tidepool_end_allocate_to_pool",
    "set_release_pool": "tidepool_release_pool",
}


def use_tidepool(budget: str | None = None,
                 allocate: str = "tidepool_malloc_or_throw") -> ctypes.CDLL:
    """Make Tidepool PyTorch's CUDA allocator; before the first use of CUDA.

    Args:
        budget: of each device, such as "8GiB" or "80%"; None: TIDEPOOL_BUDGET, or all there is.
        allocate: "tidepool_malloc" returns null where memory is short instead of raising an error:
            for callers that look at what they get, which PyTorch's operators do not.

    Returns:
        The library, for `tidepool_statistic`.
    """
    library = ctypes.CDLL(str(LIBRARY))
    library.tidepool_statistic.restype = ctypes.c_size_t
    if budget and library.tidepool_set_budget(budget.encode()) != 0:
        raise ValueError(f"budget {budget!r} is no size")
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        str(LIBRARY), allocate, "tidepool_free")
    for setter, function in HOOKS.items():
        address = ctypes.cast(getattr(library, function), ctypes.c_void_p).value
        getattr(allocator.allocator(), setter)(address)
    torch.cuda.memory.change_current_allocator(allocator)
    return library


def main() -> None:
    library = use_tidepool(sys.argv[1] if len(sys.argv) > 1 else None)
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(5):
        loss = model(torch.empty(64, 256, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    for name in ("budget_bytes", "reserved_peak_bytes", "allocated_peak_bytes", "allocations"):
        print(name, library.tidepool_statistic(0, name.encode()))


if __name__ == "__main__":
    main()
