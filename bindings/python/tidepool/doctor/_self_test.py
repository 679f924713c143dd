"""The parts of `tidepool doctor` that need PyTorch, each in a process of its own.

`inspect` says what PyTorch, plugins and GPUs there are, and trains a small network without
Tidepool; `attached` trains the same network with Tidepool attached. Both print one line of JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import json
import sys
import time

_STEPS = 2  # the second one has an optimizer's state
_VIRTUAL_MEMORY = 102  # CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED of cuda.h


def train(torch, device: str) -> list[str]:
    """Train a small network and return fingerprints of its losses and parameters."""
    from ..verify import _fingerprint

    torch.manual_seed(0)
    torch.set_num_threads(1)
    nn = torch.nn
    layers = [part for _ in range(2)
              for part in (nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.1))]
    model = nn.Sequential(*layers, nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(64, 64, device=device)
    labels = torch.arange(64, device=device) % 10
    results = []
    for _ in range(_STEPS):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.detach().cpu())
    fingerprints = _fingerprint.Fingerprints(torch)
    return [fingerprints.of(each) for each in (*results, *(p.cpu() for p in model.parameters()))]


def inspect(device: str) -> dict:
    """Return what there is of PyTorch, and what the network gives without Tidepool."""
    started = time.monotonic()
    import torch

    found = {"version": str(torch.__version__), "file": torch.__file__,
             "cuda": torch.version.cuda, "entry_point": _has_entry_point(), "gpus": []}
    if device == "cuda":
        found["gpus"] = _gpus(torch)
        found["driver"] = _driver_version()
    found["results"] = train(torch, device)
    found["plugins"] = {name: _plugin_problem(name) for name in ("cpu", "cuda")
                        if name == "cpu" or torch.version.cuda}
    return {**found, "seconds": time.monotonic() - started}


def attached(device: str) -> dict:
    """Return what the network gives in this process, to which Tidepool is attached."""
    started = time.monotonic()
    import torch

    import tidepool

    results = train(torch, device)
    devices = tidepool.stats()["devices"].values()
    return {"results": results, "attached": bool(devices),
            "evictions": sum(each["evictions"] for each in devices),
            "replays": sum(each["operators_replayed"] for each in devices),
            "different": any(each["contents_different"] for each in devices),
            "seconds": time.monotonic() - started}


def _has_entry_point() -> bool:
    return any(point.name == "tidepool"
               for point in importlib.metadata.entry_points(group="torch.backends"))


def _plugin_problem(device: str) -> str:
    """Return why a device's plugin cannot be loaded, or nothing."""
    from ..job import _plugin

    try:
        _plugin.load(device=device)
    except _plugin.AttachError as error:
        return str(error)
    return ""


def _gpus(torch) -> list[dict]:
    found = []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        found.append({"name": torch.cuda.get_device_name(index), "total_bytes": total,
                      "free_bytes": free, "virtual_memory": _has_virtual_memory(index)})
    return found


def _has_virtual_memory(index: int) -> bool | None:
    """Return whether the driver maps a GPU's memory by pages; None where it does not say."""
    with contextlib.suppress(OSError, AttributeError):
        driver = ctypes.CDLL("libcuda.so.1")
        device, value = ctypes.c_int(), ctypes.c_int()
        if (driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), index) == 0
                and driver.cuDeviceGetAttribute(ctypes.byref(value), _VIRTUAL_MEMORY, device) == 0):
            return bool(value.value)
    return None


def _driver_version() -> str | None:
    """Return the CUDA version that the driver supports, such as 13.0."""
    with contextlib.suppress(OSError, AttributeError):
        version = ctypes.c_int()
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) == 0:
            return f"{version.value // 1000}.{version.value % 1000 // 10}"
    return None


def main(part: str, device: str) -> None:
    """Run one part and print what it found."""
    found = {"inspect": inspect, "attached": attached}[part](device)
    sys.stdout.write(f"\n{json.dumps(found)}\n")
