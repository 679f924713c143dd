"""Changes the budget on the stand-in CUDA device; prints what is held and refused, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin

import value_kernels  # isort: skip  before torch
import tidepool
import torch
from tidepool.job import _job

MIB = 1 << 20
device = standin.Device()


def refusal(change) -> str:
    """Return the error that a change raises."""
    try:
        change()
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def held() -> int:
    """Return what the device has given, and check that the statistics say so, too."""
    counted = tidepool.stats()["devices"]["cuda:0"]["reserved_bytes"]
    assert counted <= device.used_bytes()
    return counted


def fits(mib: int) -> bool:
    return "OutOfMemoryError" not in refusal(
        lambda: torch.empty(mib * MIB, dtype=torch.uint8, device="cuda"))


def both_limits() -> list[bool]:
    """Say what fits where the job has limited itself in PyTorch's way, too."""
    total = torch.cuda.mem_get_info()[1]
    tidepool.set_budget("16MiB")
    torch.cuda.set_per_process_memory_fraction(1.0)
    found = [fits(20)]
    torch.cuda.set_per_process_memory_fraction(8 * MIB / total)
    found.append(fits(12))
    tidepool.set_budget(None)
    found.append(fits(12))
    torch.cuda.set_per_process_memory_fraction(1.0)
    return [*found, fits(40)]


def main() -> None:
    found = {"unused": refusal(lambda: tidepool.set_budget("16MiB"))}
    base = torch.ones(MIB // 4, device="cuda")
    made = [base.mul(k) for k in range(40)]
    torch.cuda.synchronize()
    prints = [value_kernels.fingerprint([each]) for each in made[:8]]
    found |= {"before": held(), "allowed": tidepool.set_budget("16MiB"), "after": held()}
    with tidepool.keep(*made[:8]):
        found["too_small"] = refusal(lambda: tidepool.set_budget("4MiB"))
        found["kept"] = held()
    found["same"] = prints == [value_kernels.fingerprint([each]) for each in made[:8]]
    found["restored"] = held()
    with tidepool.budget("8MiB"):
        found["in_block"] = held()
        found["refused"] = refusal(lambda: torch.empty(12 * MIB, dtype=torch.uint8, device="cuda"))
    torch.empty(12 * MIB, dtype=torch.uint8, device="cuda")
    found["both"] = both_limits()
    tidepool.set_budget(None)  # a capture restores everything
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        base.sin()
        found["captured"] = refusal(lambda: tidepool.set_budget("12MiB"))
    graph.reset()
    with tidepool.no_eviction():
        again = [base.add(k) for k in range(8)]
        found["kept_in_block"] = [_job.current().plugin.evict_all(), len(again)]
    found["misuses"] = device.misuses() + device.races()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
