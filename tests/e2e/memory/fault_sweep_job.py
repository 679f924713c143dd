"""Trains with a tier on disk, again and again, with a fault at another call of the file each time.

    python fault_sweep_job.py FOLDER EVERY CALL:FAULT[:COUNT]...

Needs disk_faults.c preloaded. FOLDER is where the tier has its file. For each fault prints one line
of JSON: how many calls were tried, how jobs ended, and what was wrong with them. One in EVERY calls
is tried, and COUNT calls from there on go wrong. A job may end well, with the bits that it has
without a tier, or with an error that says what could not be had. Then all that it held is given
back, also in the file, and the next training in the same process has the right bits, or finds no
memory where writing has failed for good.
"""

import gc
import json
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import torch
from fault_sweep import HARMLESS, DiskFaults, attempt, try_each
from offload_job import digest, state_of
from torch import nn

MIB = 2**20
WIDTH, LAYERS, BUDGET, STEPS = 256, 6, 4 * MIB, 2  # 6 MiB with gradients and optimizer state
REASONS = {"EIO": "Input/output error", "nothing": "No data available", "odd": "Input/output error",
           "bits": "its checksum is wrong"}
faults = DiskFaults()
folder = Path(sys.argv[1])


def training(steps):
    """Train a network, and yield digests of all that it has, by step."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    for _ in range(steps):
        loss = model(torch.randn(16, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        yield [loss.item().hex(), digest(*model.parameters()), digest(*state_of(optimizer))]
        optimizer.zero_grad()


def on_signal(_number, _frame):
    gc.collect()


def on_interrupt(_number, _frame):
    raise KeyboardInterrupt


def held():
    import tidepool

    said = tidepool.stats()["devices"]["cpu"]
    return {"allocated_bytes": said.get("allocated_bytes", 0), "tier_bytes": said["tier_bytes"]}


def offloaded(call, fault, first, count):
    """Train with a fault; return what became of it and of the training after it."""
    import tidepool

    if fault in ("signal", "interrupt"):
        signal.signal(signal.SIGUSR1, on_signal if fault == "signal" else on_interrupt)
    if call == "file":  # which is made as the job is attached
        faults.choose(call, fault, first, count)
    try:
        tidepool.enable(budget=BUDGET, device="cpu", offload=f"file:{folder}:64MiB")
    except RuntimeError as error:
        return {"steps": [], "error": f"{type(error).__name__}: {error}", "hits": faults.hits()}
    if call != "file":
        faults.choose(call, "signal" if fault == "interrupt" else fault, first, count)
    before = held()
    found = {**attempt(training(STEPS)), "hits": faults.hits(), "calls": faults.calls()}
    faults.clear()
    return {**found, "before": before, "after": held(), "again": attempt(training(1)),
            "peak": tidepool.stats()["devices"]["cpu"]["reserved_peak_bytes"]}


def judge(found, plain, call, fault):
    """Return what is wrong with how a job has ended that was not killed, or nothing."""
    error = found["error"]
    if call == "file":
        return "" if not error or str(folder) in error else "the error does not say where"
    if found["before"] != found["after"]:
        return "something was not given back"
    if found["peak"] > BUDGET:
        return "over the budget"
    if error and fault in HARMLESS:
        return "it may not end"
    again = found["again"]
    if call == "read" or fault in (*HARMLESS, "interrupt", "bits"):
        if again["steps"] != plain[:1]:
            return "the next training has other bits, or an error"
    elif not error and again["error"] and "OutOfMemoryError" not in again["error"]:
        return "the next training has another error"
    elif again["steps"] != plain[:len(again["steps"])]:
        return "the next training has other bits"
    if not error or (fault == "interrupt" and error.startswith("KeyboardInterrupt")):
        return ""
    if call == "write" and fault != "bits":
        return "" if error.startswith("OutOfMemoryError") else "not out of memory"
    told = (str(folder), REASONS.get(fault, "-"), " bytes that were offloaded")
    return "" if all(each in error for each in told) else "the error does not say what happened"


def main():
    torch.set_num_threads(1)  # threads would not be there in forked children
    every = int(sys.argv[2])
    plain = attempt(training(STEPS))["steps"]  # it also imports what children would import each
    for text in sys.argv[3:]:
        found = try_each(text, plain, 1 if text.startswith("file:") else every, str(folder),
                         offloaded, judge)
        print(json.dumps({"fault": text, **found}), flush=True)


if __name__ == "__main__":
    main()
