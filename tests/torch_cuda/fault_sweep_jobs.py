"""Trains with a tier, again and again, while another call of the device or the file fails.

    python fault_sweep_jobs.py OFFLOAD EVERY CALL:FAULT[:COUNT]...

Needs the stand-in device and disk_faults.c preloaded. OFFLOAD is the setting. A fault is one of
disk_faults.c, at calls `write` and `read`, or `CALL:fails` for a kind of call of the stand-in
device. For each prints one line of JSON: how many calls were tried, how jobs ended, and what was
wrong with them. One in EVERY calls is tried, and COUNT calls from there on go wrong. A job may end
well, with the bits that it has without a tier, or with an error. Then all that it held is given
back, also in the tier, and the next training in the same process has the right bits, or finds no
memory where writing has failed for good.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin

import value_kernels  # isort: skip
import torch
import torch._dynamo
from fault_sweep import HARMLESS, DiskFaults, attempt, in_child, try_each
from torch import nn

WIDTH, LAYERS, BUDGET, STEPS = 128, 6, 1 << 20, 2  # 1.5 MiB with gradients and optimizer state
disk = DiskFaults()
device = standin.Device()
kernels = value_kernels.install()
OFFLOAD = sys.argv[1]
FOLDER = OFFLOAD.split("file:")[1].rpartition(":")[0] if "file:" in OFFLOAD else ""


def training(steps: int):
    """Train a network, and yield digests of all that it has, by step."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    for _ in range(steps):
        loss = model(torch.randn(16, WIDTH).cuda()).square().mean()
        loss.backward()
        optimizer.step()
        state = [each for one in optimizer.state.values() for each in one.values()]
        yield [value_kernels.fingerprint(each) for each in ([loss], model.parameters(), state)]
        optimizer.zero_grad()


def held() -> dict[str, int]:
    """Return what is held by tensors, and in the tier."""
    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    tidepool = sys.modules.get("tidepool")
    said = tidepool.stats()["devices"].get("cuda:0", {}) if tidepool else {}
    return {"allocated_bytes": torch.cuda.memory_allocated(),
            "tier_bytes": said.get("tier_bytes", 0)}


def offloaded(call: str, fault: str, first: int, count: int) -> dict:
    """Train with a fault; return what became of it and of the training after it."""
    import tidepool

    signal.signal(signal.SIGUSR1, lambda *_: gc.collect())
    tidepool.enable(budget=BUDGET, device="cuda", offload=OFFLOAD)
    torch.cuda.init()
    calls = device.calls(call) if fault == "fails" else 0
    if fault == "fails":  # the tier is made with the first allocation
        device.set(fail=f"{call}:{first}x{count}")
    else:
        disk.choose(call, fault, first, count)
    found = attempt(training(STEPS))
    found["hits"] = device.failures(call) if fault == "fails" else disk.hits()
    found["calls"] = device.calls(call) - calls if fault == "fails" else disk.calls()
    device.clear_failures()
    disk.clear()
    found["after"] = held()
    found["again"] = attempt(training(1))
    said = tidepool.stats()["devices"]["cuda:0"]
    return {**found, "last": held(), "used_peak": device.used_peak_bytes(),
            "races": device.races(), "misuses": device.misuses(),
            "offloads": said["offloads"], "fetches": said["fetches"]}


def judge(found: dict, plain: list, call: str, fault: str) -> str:
    """Return what is wrong with how a job has ended that was not killed, or nothing."""
    error, again = found["error"], found["again"]
    if any(found[each] != {"allocated_bytes": 0, "tier_bytes": 0} for each in ("after", "last")):
        return "something was not given back"
    if found["used_peak"] > BUDGET:
        return "over the budget"
    if found["races"] or found["misuses"]:
        return "a race or a misuse"
    if error and (fault in HARMLESS or call == "host_alloc") and "OutOfMemoryError" not in error:
        return "it may not end"
    if again["steps"] != plain[:1] and not (
            again["error"].startswith("OutOfMemoryError") and call in ("write", "host_alloc")):
        return "the next training has other bits, or an error"
    if error and call == "read" and "cannot be read back" not in error:
        return "the error does not say what happened"
    return ""


def main() -> None:
    torch.set_num_threads(1)
    every = int(sys.argv[2])
    found = in_child(lambda: attempt(training(STEPS)))
    assert len(found.get("steps", [])) == STEPS, found
    plain = found["steps"]
    for text in sys.argv[3:]:
        found = try_each(text, plain, every, FOLDER, offloaded, judge)
        print(json.dumps({"fault": text, **found}), flush=True)


if __name__ == "__main__":
    main()
