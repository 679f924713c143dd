"""Jobs of stock PyTorch on the stand-in CUDA device: `device_jobs.py NAME...` prints facts as JSON.

Each job returns what a test compares. None knows Tidepool.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin
import torch
from operand_watch import OperandWatch
from torch import nn
from torch.utils.checkpoint import checkpoint

MIB = 1 << 20
device = standin.Device()


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor,
         scaler: torch.amp.GradScaler | None = None) -> None:
    """Take one training step."""
    optimizer.zero_grad()
    with torch.autocast("cuda", enabled=scaler is not None):
        loss = model(batch).square().mean()
    if scaler is None:
        loss.backward()
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def kernels() -> set[str]:
    """Return the names in the log of operations."""
    return {line.split()[4] for line in device.log()}


def mlp() -> dict:
    """Train a perceptron, and give everything back."""
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    launches = device.calls("launch")
    for _ in range(3):
        step(model, optimizer, torch.randn(64, 256, device="cuda"))
    torch.cuda.synchronize()
    facts = {"launches": device.calls("launch") - launches, "used": device.used_bytes(),
             "reserved": torch.cuda.memory_reserved(), "allocated": torch.cuda.memory_allocated(),
             "multiplies": any("gemm" in name.lower() or "Matmul" in name for name in kernels())}
    del model, optimizer
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    return facts | {"used_after": device.used_bytes(),
                    "allocated_after": torch.cuda.memory_allocated()}


def conv() -> dict:
    """Train a convolutional net with mixed precision and fused Adam."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Conv2d(16, 16, 3), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(16, 10)).cuda()
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(3):
        batch = torch.randn(8, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
        step(model, optimizer, batch, scaler)
    torch.cuda.synchronize()
    names = kernels()
    return {"convolves": "cudnnBackendExecute" in names,
            "fused": any("FusedAdam" in name for name in names)}


def checkpointed() -> dict:
    """Compare the peaks of a deep net with checkpoints and without."""
    layers = nn.ModuleList([nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(12)])
    layers.cuda()
    peaks = []
    for use in (False, True):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        value = torch.randn(2048, 512, device="cuda", requires_grad=True)
        for layer in layers:
            value = checkpoint(layer, value, use_reentrant=False) if use else layer(value)
        value.sum().backward()
        peaks.append(torch.cuda.max_memory_allocated() - before)
        layers.zero_grad()
        del value
    return {"plain": peaks[0], "checkpointed": peaks[1]}


def graph() -> dict:
    """Capture a training step in a CUDA graph, and replay it."""
    model = nn.Linear(64, 64).cuda()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    batch = torch.randn(16, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step(model, optimizer, batch)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    launches = device.calls("launch")
    with torch.cuda.graph(captured):
        step(model, optimizer, batch)
    facts = {"captured": device.calls("launch") - launches, "graphs": device.live("graphs")}
    launches = device.calls("launch")
    for _ in range(3):
        captured.replay()
    torch.cuda.synchronize()
    facts |= {"replays": device.calls("graph_launch"),
              "launched_by_replay": device.calls("launch") - launches}
    callable_model = torch.cuda.make_graphed_callables(nn.Linear(8, 8).cuda(),
                                                       (torch.randn(4, 8, device="cuda"),))
    callable_model(torch.randn(4, 8, device="cuda")).sum().backward()
    captured.reset()
    return facts | {"replays_after": device.calls("graph_launch")}


def pool() -> dict:
    """Allocate from a memory pool of one's own."""
    own = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(own):
        inside = torch.zeros(4 * MIB, device="cuda")
    segments = [segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()
                if segment["address"] <= inside.data_ptr() < segment["address"]
                + segment["total_size"]]
    del inside
    return {"own": segments == [own.id], "segments": len(own.snapshot())}


def two_devices() -> dict:
    """Use two devices, and copy between them."""
    used = device.used_bytes(1)
    source = torch.arange(1000, dtype=torch.float32).to("cuda:0")
    target = source.to("cuda:1")
    model = nn.Linear(8, 8).to("cuda:1")
    model(torch.randn(4, 8, device="cuda:1")).sum().backward()
    torch.cuda.synchronize(1)
    return {"count": torch.cuda.device_count(), "used": device.used_bytes(1) - used,
            "peer": torch.cuda.can_device_access_peer(0, 1),
            "equal": bool((target.cpu() == torch.arange(1000)).all()),
            "total": [torch.cuda.mem_get_info(i)[1] for i in range(2)]}


def out_of_memory() -> dict:
    """Ask for too much, then for what fits once cached memory is given back."""
    total = torch.cuda.mem_get_info()[1]
    facts = {}
    try:
        torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        facts["message"] = str(error)
    kept = [torch.empty(total // 8, dtype=torch.uint8, device="cuda") for _ in range(6)]
    del kept
    whole = torch.empty(total * 3 // 4, dtype=torch.uint8, device="cuda")  # cached pieces do not do
    stats = torch.cuda.memory_stats()
    facts |= {"ooms": stats["num_ooms"], "retries": stats["num_alloc_retries"],
              "got": whole.numel() == total * 3 // 4}
    del whole
    device.set(fail="malloc:1,create:1")  # one more, which the allocator answers with a retry
    torch.cuda.empty_cache()
    torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    failed = device.failures("malloc") + device.failures("create")
    device.clear_failures()
    return facts | {"failed": failed,
                    "retries_after": torch.cuda.memory_stats()["num_alloc_retries"]}


def expandable() -> dict:
    """Grow one tensor after the other in expandable segments."""
    mappings = device.calls("map")
    tensors = [torch.ones(size * MIB, dtype=torch.uint8, device="cuda")
               for size in (3, 30, 5, 70)]
    facts = {"mapped": device.calls("map") - mappings, "allocations": device.live("allocations"),
             "expandable": all(segment["is_expandable"]
                               for segment in torch.cuda.memory_snapshot())}
    del tensors
    torch.cuda.empty_cache()
    return facts | {"mappings": device.live("mappings"), "used": device.used_bytes()}


def large() -> dict:
    """Fill an 80 GiB device, and train on it, without touching its bytes."""
    filler = [torch.zeros(4 << 30, dtype=torch.uint8, device="cuda") for _ in range(19)]
    mlp_facts = mlp()
    back = filler[0][:10].cpu()
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return {"used": device.used_peak_bytes(), "host_peak": peak << 10,
            "zeros": bool((back == 0).all()), "launches": mlp_facts["launches"]}


def streams() -> dict:
    """Share tensors between streams, correctly."""
    side = torch.cuda.Stream()
    for _ in range(20):
        shared = torch.randn(MIB, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            used = shared * 2
        shared.record_stream(side)
        torch.cuda.current_stream().wait_stream(side)
        used.record_stream(torch.cuda.current_stream())
        again = used + 1
        del shared, used, again
    return {"queries": device.calls("event_query"), "ranges": device.live("ranges")}


def forgotten_stream() -> dict:
    """Leave record_stream out where it is needed."""
    side = torch.cuda.Stream()
    shared = torch.randn(MIB, device="cuda")
    address = shared.data_ptr()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        shared * 2
    del shared
    reused = torch.zeros(MIB, device="cuda")
    return {"same": reused.data_ptr() == address, "address": f"{address:#x}"}


def knobs() -> dict:
    """Turn the device's knobs while it is in use."""
    tensor = torch.ones(1000, device="cuda")
    try:
        unknown = device.calls("maps")
    except ValueError as error:
        unknown = str(error)
    device.set(fail="copy:2")
    outcomes = []
    for _ in range(3):
        try:
            tensor.cpu()
            outcomes.append("copied")
        except RuntimeError as error:
            outcomes.append("unknown error" in str(error))
    event = torch.cuda.Event()
    device.set(late="asked")
    event.record()
    asked = [event.query(), event.query()]
    device.complete(torch.cuda.current_stream().cuda_stream)
    asked.append(event.query())
    device.set(late=0, price="launch:0+1000000")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    tensor.add_(1).mul_(2)
    end.record()
    end.synchronize()
    return {"outcomes": outcomes, "asked": asked, "milliseconds": start.elapsed_time(end),
            "unknown": unknown}


def workspace() -> dict:
    """Let a convolution want a workspace."""
    layer = nn.Conv2d(3, 8, 3).cuda()
    batch = torch.randn(2, 3, 16, 16, device="cuda")
    peaks = []
    for size in ("0", "64MiB"):
        device.set(dnn_workspace=size)
        torch.cuda.reset_peak_memory_stats()
        with torch.no_grad():
            layer(batch)
        peaks.append(torch.cuda.max_memory_allocated())
        batch = torch.randn(2, 3, 17, 16, device="cuda")  # takes another plan
    return {"more": peaks[1] - peaks[0]}


def wall() -> dict:
    """Run into the limit of mappings."""
    torch.cuda.empty_cache()
    kept = []
    message = ""
    before = device.live("mappings")
    device.set(mapping_limit=before + 7)
    try:
        while len(kept) < 1000:
            kept.append(torch.empty(20 * MIB, dtype=torch.uint8, device="cuda"))
    except RuntimeError as error:  # stock PyTorch does not expect cuMemMap to fail
        message = str(error)
    return {"kept": len(kept), "mappings": device.live("mappings") - before, "message": message}


def other_process(tensors: torch.multiprocessing.Queue,
                  answers: torch.multiprocessing.Queue) -> None:
    """Read a tensor of the parent's, and write to it."""
    tensor = tensors.get()
    answers.put(float(tensor.cpu().sum()))
    tensor.copy_(torch.full((10,), 7.0))
    del tensor
    answers.put(None)


def processes() -> dict:
    """Share a tensor with another process."""
    context = torch.multiprocessing.get_context("spawn")
    tensors, answers = context.Queue(), context.Queue()
    other = context.Process(target=other_process, args=(tensors, answers))
    other.start()
    tensor = torch.arange(10.0).cuda()
    tensors.put(tensor)
    read = answers.get(timeout=60)
    answers.get(timeout=60)
    other.join()
    return {"read": read, "written": tensor.tolist()}


def leave() -> dict:
    """Leave tensors, streams and events behind when the process ends."""
    global kept
    kept = [nn.Linear(64, 64).cuda(), torch.cuda.Stream(), torch.cuda.Event()]
    kept.append(kept[0](torch.randn(8, 64, device="cuda")))
    return {"allocated": torch.cuda.memory_allocated()}


def unfaked() -> dict:
    """Call what the stand-in device has not."""
    torch.fft.fft(torch.randn(8, device="cuda"))
    return {}


def main() -> None:
    """Run the named jobs and print their facts; with --watch, under the race checker."""
    names = sys.argv[1:]
    watch = contextlib.nullcontext()
    if names[0] == "--watch":
        names = names[1:]
        torch.cuda.init()
        device.watch_allocator()
        watch = OperandWatch(device)
    with watch:
        facts = {name: globals()[name]() for name in names}
    print(json.dumps(facts | {"misuses": device.misuses(), "races": device.races()}), flush=True)
    if names != ["leave"]:
        # Autograd's threads may still be dropping Python objects of the last backward pass. An
        # interpreter that ends meanwhile ends them by pthread_exit, and the process aborts.
        os._exit(0)


if __name__ == "__main__":
    main()
