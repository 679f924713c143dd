"""Does what once went wrong in other CUDA allocators, and prints what happened as JSON.

    python known_bug_jobs.py NAME

Each function is named after the thread in which the bug was reported: of pytorch/pytorch, where no
other project is named. For a budget of 64 MiB.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin
import torch

MIB = 1 << 20
device = standin.Device()


def block(mib: float) -> torch.Tensor:
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")


def in_thread(work):
    """Run work in another thread; return what it returned."""
    done = []
    thread = threading.Thread(target=lambda: done.append(work()))
    thread.start()
    thread.join()
    return done[0] if done else "raised"


def used_elsewhere(mib: float) -> None:
    """Free a block that another stream still uses."""
    side = torch.cuda.Stream()
    tensor = block(mib)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        tensor.fill_(1)
    tensor.record_stream(side)


def bug_175015() -> dict:
    """While one thread allocates to a MemPool, another one needs what a stream has not left yet."""
    pool = torch.cuda.MemPool()

    def fill_the_device() -> int:
        used_elsewhere(40)
        return block(48).numel() // MIB

    with torch.cuda.use_mem_pool(pool):
        inside = block(1)
        other = in_thread(fill_the_device)
    return {"inside": inside.numel() // MIB, "other": other}


def bug_161193() -> dict:
    """A MemPool within a MemPool: each has its own memory, and afterwards nobody."""
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(outer):
        first = block(2)
        with torch.cuda.use_mem_pool(inner):
            second = block(2)
    third = block(2)

    def owners(tensor: torch.Tensor) -> list[str]:
        return [name for name, pool in (("outer", outer), ("inner", inner))
                for s in pool.snapshot()
                if s["address"] <= tensor.data_ptr() < s["address"] + s["total_size"]]

    return {"first": owners(first), "second": owners(second), "third": owners(third)}


COUNTING_ALLOCATOR = r"""
#include <stddef.h>
int cudaMalloc(void** address, size_t bytes);
int cudaFree(void* address);
int allocated = 0, freed = 0;
void* counted_malloc(size_t bytes, int device, void* stream) {
  void* address = 0;
  (void)device, (void)stream;
  return cudaMalloc(&address, bytes) == 0 ? (++allocated, address) : 0;
}
void counted_free(void* address, size_t bytes, int device, void* stream) {
  (void)bytes, (void)device, (void)stream;
  if (address != 0) ++freed, cudaFree(address);
}
"""


def bug_146431() -> dict:
    """Memory of a pool with functions of its own, freed outside of the pool, goes back to those."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "counting.c"), Path(folder, "libcounting.so")
        source.write_text(COUNTING_ALLOCATOR)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        allocator = torch.cuda.memory.CUDAPluggableAllocator(str(library), "counted_malloc",
                                                             "counted_free")
        pool = torch.cuda.MemPool(allocator.allocator())
        with torch.cuda.use_mem_pool(pool):
            inside = block(4)
        outside = block(4)
        del inside
        del pool
        torch.cuda.empty_cache()
        counts = ctypes.CDLL(str(library))
        return {name: ctypes.c_int.in_dll(counts, name).value for name in ("allocated", "freed")
                } | {"outside": outside.numel() // MIB}


def bug_57571() -> dict:
    """Sizes near the end of the numbers are errors, and not small."""
    ends = []
    for size in (2**63 - 1, 2**62, 2**48):
        try:
            torch.empty(size, dtype=torch.uint8, device="cuda")
            ends.append("allocated")
        except torch.OutOfMemoryError:
            ends.append("out of memory")
        except RuntimeError:
            ends.append("refused")
    return {"ends": ends, "allocated": torch.cuda.memory_allocated()}


def bug_123548() -> dict:
    """Sizes below and above max_split_size_mb in turn: nothing piles up."""
    most = 0
    kept = block(1)
    for turn in range(60):
        tensor = block(8 + turn % 23)
        most = max(most, torch.cuda.memory_reserved())
        del tensor
    return {"most_mib": most // MIB, "kept": kept.numel() // MIB}


def bug_153571() -> dict:
    """A history that has been switched off hears of nothing more."""
    torch.cuda.memory._record_memory_history()
    first = block(4)
    entries = len(torch.cuda.memory._snapshot()["device_traces"][0])
    torch.cuda.memory._record_memory_history(enabled=None)
    second = block(4)
    snapshot = torch.cuda.memory._snapshot()
    frames = [bool(each.get("frames")) for segment in snapshot["segments"]
              for each in segment["blocks"] if each["address"] == second.data_ptr()]
    return {"heard": entries > 0, "more": len(snapshot["device_traces"][0]) - entries > 0,
            "frames": frames, "alive": first.numel() // MIB}


def bug_108907() -> dict:
    """A trace has the address of what was allocated."""
    from torch._C import _activate_gpu_trace
    from torch.cuda import _gpu_trace

    heard: list[int] = []
    freed: list[int] = []
    _gpu_trace.register_callback_for_memory_allocation(heard.append)
    _gpu_trace.register_callback_for_memory_deallocation(freed.append)
    _activate_gpu_trace()
    torch.cuda.memory._record_memory_history(stacks="python")
    tensor = block(4)
    address = tensor.data_ptr()
    del tensor
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    return {"allocated": address in heard, "freed": address in freed, "nowhere": 0 in heard,
            "history": sorted({each["action"] for each in entries if each["addr"] == address})}


def main() -> None:
    torch.cuda.init()
    said = globals()[f"bug_{sys.argv[1]}"]()
    print(json.dumps({**said, "misuses": device.misuses()}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
