"""Uses PyTorch over libtidepool_pluggable.so, and prints what it saw as one line of JSON.

    python pluggable_job.py NAME [BUDGET]

NAME is a function below; those of MISUSES end in an abort.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "docs" / "examples")]

import pluggable_allocator  # noqa: E402
import standin  # noqa: E402
import torch  # noqa: E402

MIB = 1 << 20
device = standin.Device()


def block(mib: float, where: str = "cuda:0") -> torch.Tensor:
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device=where)


def statistic(name: str, where: int = 0) -> int:
    return library.tidepool_statistic(where, name.encode())


def state(where: int = 0) -> list[int]:
    """Allocated and reserved MiB of a device."""
    return [statistic(name, where) // MIB for name in ("allocated_bytes", "reserved_bytes")]


def served(tensor: torch.Tensor) -> bool:
    """Return whether a tensor got memory: PyTorch refuses to look at a null address."""
    try:
        return tensor.untyped_storage().data_ptr() != 0
    except RuntimeError:
        return False


def caching() -> dict:
    """A freed block is cached, used again, and given back by empty_cache."""
    kept = block(8)
    address = kept.data_ptr()
    facts = {"allocated": state()}
    del kept
    facts["freed"] = state()
    again = block(8)
    facts["same"] = again.data_ptr() == address
    del again
    torch.cuda.empty_cache()
    facts["emptied"] = [*state(), device.used_bytes(0) // MIB]
    return facts


def budgets() -> dict:
    """Each device has the budget for itself, and no request takes more."""
    facts = {}
    for where in range(2):
        kept = [block(8, f"cuda:{where}") for _ in range(7)]
        facts[f"full {where}"] = state(where)
        missing = block(16, f"cuda:{where}")
        facts[f"null {where}"] = not served(missing)
        del kept, missing
        facts[f"later {where}"] = served(block(32, f"cuda:{where}"))
    facts["held"] = [device.used_peak_bytes(where) // MIB for where in range(2)]
    return facts


def thrown() -> dict:
    """PyTorch turns the exception into an error of Python's; what was there stays."""
    kept = block(48)
    try:
        block(32)
    except RuntimeError as error:
        return {"error": str(error).splitlines()[0], "kept": served(kept), "state": state(),
                "later": served(block(8))}
    return {}


def fraction() -> dict:
    """set_per_process_memory_fraction caps a device below its budget, before and after its use."""
    torch.cuda.set_per_process_memory_fraction(1 / 64)  # of 1 GiB
    first = block(8)
    facts = {"small": [served(first), served(block(16))]}
    torch.cuda.set_per_process_memory_fraction(1 / 16)
    facts["larger"] = served(block(32))
    torch.cuda.set_per_process_memory_fraction(1 / 64)  # 16 MiB, where more is held
    first = None
    torch.cuda.empty_cache()
    facts["lower"] = served(block(24))
    return facts


def streams() -> dict:
    """A block that another stream uses is not handed out before that stream is through."""
    device.set(late="asked")
    side = torch.cuda.Stream()
    kept = block(8)
    address = kept.data_ptr()
    with torch.cuda.stream(side):
        kept.add_(1)
    kept.record_stream(side)
    del kept
    facts = {"reused_early": block(8).data_ptr() == address}
    device.complete(side.cuda_stream)
    torch.cuda.synchronize()
    kept = [block(8) for _ in range(8)]
    facts["reused_late"] = address in [each.data_ptr() for each in kept]
    facts["unordered"] = device.races()
    return facts


def graphs() -> dict:
    """Memory of a captured graph stays its own until the graph is gone."""
    graph, other = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):  # what PyTorch keeps after its first capture
        pass
    gc.collect()
    kept = statistic("allocated_bytes")
    before = block(4)
    with torch.cuda.graph(graph):
        inner = block(8).add_(1)
        inside = inner.data_ptr()
        del inner
        again = block(8)
        facts = {"reused_inside": again.data_ptr() == inside}
        del again
        result = block(2).add_(1)
    outside = [block(8) for _ in range(3)]
    facts["apart"] = inside not in [each.data_ptr() for each in outside]
    with torch.cuda.graph(other, pool=graph.pool()):
        facts["shared"] = block(8).add_(1).data_ptr() == inside
    for _ in range(3):
        graph.replay()
        other.replay()
    graph.reset()
    facts["while_used"] = inside not in [block(8).data_ptr() for _ in range(2)]
    waits = device.calls("synchronize")
    other.reset()
    facts["waits"] = device.calls("synchronize") - waits
    del outside, before
    gc.collect()
    facts["result_kept"] = result.data_ptr() not in [each.data_ptr() for each in
                                                     [block(2) for _ in range(8)]]
    del result, graph, other  # PyTorch 2.11 keeps a few bytes for as long as there are graphs
    gc.collect()
    facts["left"] = statistic("allocated_bytes") - kept
    torch.cuda.empty_cache()
    facts["held"] = device.used_bytes(0)
    facts["problems"] = [*device.races(), *device.misuses()]
    return facts


def bases() -> dict:
    """The base of a block is the block."""
    kept = block(3)
    size = ctypes.c_size_t()
    base = library.tidepool_base_alloc
    base.restype = ctypes.c_void_p
    facts = {"base": base(ctypes.c_void_p(kept.data_ptr()), ctypes.byref(size)) == kept.data_ptr(),
             "size": size.value}
    inside = base(ctypes.c_void_p(kept.data_ptr() + 512), ctypes.byref(size))
    facts["inside"] = [inside, size.value]
    return facts


def raw(size: int = 4096) -> int:
    library.tidepool_malloc.restype = ctypes.c_void_p
    return library.tidepool_malloc(ctypes.c_ssize_t(size), 0, None)


def raw_free(address: int, size: int = 4096, where: int = 0, stream: int = 0) -> None:
    library.tidepool_free(ctypes.c_void_p(address), ctypes.c_ssize_t(size), where,
                          ctypes.c_void_p(stream))


def odd_sizes() -> dict:
    """Sizes that no block has."""
    facts = {"zero": raw(0), "negative": raw(-1), "huge": raw(2**63 - 1)}
    raw_free(0)
    device_9 = library.tidepool_malloc(ctypes.c_ssize_t(64), 9, None)
    return {**facts, "no_device": device_9, "later": bool(raw())}


MISUSES = {
    "double": lambda address: (raw_free(address), raw_free(address)),
    "interior": lambda address: raw_free(address + 512),
    "foreign": lambda address: raw_free(0x10000),
    "size": lambda address: raw_free(address, size=4095),
    "stream": lambda address: raw_free(address, stream=torch.cuda.Stream().cuda_stream),
    "device": lambda address: raw_free(address, where=1),
    "recorded": lambda address: library.tidepool_record_stream(
        ctypes.c_void_p(address + 512), ctypes.c_void_p(0)),
}


def main() -> None:
    name = sys.argv[1]
    if name in MISUSES:
        address = raw()
        print(f"{address:x}", flush=True)
        MISUSES[name](address)
        return
    print(json.dumps(globals()[name]()))


library = pluggable_allocator.use_tidepool(
    sys.argv[2] if len(sys.argv) > 2 else None,
    "tidepool_malloc_or_throw" if sys.argv[1] == "thrown" else "tidepool_malloc")
if __name__ == "__main__":
    main()
