"""Uses each face of PyTorch's CUDA allocator, and prints what it said as one line of JSON.

    python face_jobs.py [--enable BUDGET] [NAME...]

What a face returns here is the same with PyTorch's own allocator and with Tidepool's. With
--enable, Tidepool is attached in the script, after CUDA was used.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin
import torch
from torch import nn

MIB = 1 << 20
device = standin.Device()


def block(mib: float = 8, where: str = "cuda") -> torch.Tensor:
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device=where)


def clean_up() -> None:
    torch.cuda.synchronize()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()


def current(name: str = "allocated_bytes") -> int:
    return torch.cuda.memory_stats()[f"{name}.all.current"]


def statistics() -> dict:
    """Counts and bytes by pool, and what resets do to them."""
    small, large = block(0.3), block(8)
    facts = {"keys": sorted(key for key in torch.cuda.memory_stats()
                            if key.startswith(("allocation.", "allocated_bytes.", "active.",
                                               "active_bytes.", "requested_bytes.")))}
    facts["values"] = [torch.cuda.memory_stats()[key] for key in facts["keys"]]
    del large
    facts["peak"] = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    facts["reset"] = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
    torch.cuda.reset_accumulated_memory_stats()
    stats = torch.cuda.memory_stats()
    facts["accumulated"] = [stats["allocated_bytes.all.allocated"], stats["allocation.all.freed"]]
    facts["reserved"] = torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    facts["peak_reserved"] = torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved()
    del small
    return facts


def summary() -> dict:
    """The table for people."""
    kept = block(3)
    text = torch.cuda.memory_summary()
    facts = {"rows": [line.split("|")[1].strip() for line in text.splitlines() if "|" in line[1:]],
             "allocated": "3072 KiB" in text}
    del kept
    return facts


def emptied() -> dict:
    """Cached memory goes back to the device."""
    kept = block(4)
    del kept
    cached = torch.cuda.memory_reserved() >= 4 * MIB
    free = torch.cuda.mem_get_info()[0]
    torch.cuda.empty_cache()
    return {"cached": cached, "reserved": torch.cuda.memory_reserved(),
            "given_back": torch.cuda.mem_get_info()[0] - free >= 4 * MIB,
            "total": torch.cuda.mem_get_info()[1]}


def fraction() -> dict:
    """A job may limit itself."""
    total = torch.cuda.mem_get_info()[1]
    before = torch.cuda.get_per_process_memory_fraction()
    torch.cuda.set_per_process_memory_fraction(64 * MIB / total)
    facts = {"before": before, "get": torch.cuda.get_per_process_memory_fraction()}
    kept = [block(40)]
    try:
        kept.append(block(40))
        facts["error"] = None
    except torch.cuda.OutOfMemoryError:
        facts["error"] = "OutOfMemoryError"
    torch.cuda.set_per_process_memory_fraction(1.0)
    kept.append(block(40))
    torch.cuda.set_per_process_memory_fraction(16 * MIB / total)  # less than is held
    del kept
    torch.cuda.empty_cache()
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        facts["lower"] = block(24).numel()
    torch.cuda.set_per_process_memory_fraction(1.0)
    for wrong in (-0.1, 1.5):
        try:
            torch.cuda.set_per_process_memory_fraction(wrong)
        except (ValueError, RuntimeError) as error:
            facts[f"wrong {wrong}"] = type(error).__name__
    return facts


def limited() -> dict:
    """PyTorch's own settings may limit a job."""
    facts = {"fraction": torch.cuda.get_per_process_memory_fraction(),
             "fits": block(40).numel() // MIB}
    kept = block(40)
    try:
        block(40)
        facts["error"] = None
    except torch.cuda.OutOfMemoryError:
        facts["error"] = "OutOfMemoryError"
    del kept
    return facts


def snapshot() -> dict:
    """Segments and blocks add up to what the statistics say."""
    kept, freed = [block(3), block(0.1)], block(5)
    del freed
    segments = torch.cuda.memory_snapshot()
    blocks = [each for segment in segments for each in segment["blocks"]]
    addresses = {each["address"] for each in blocks if each["state"] == "active_allocated"}
    return {"reserved": sum(s["total_size"] for s in segments) == torch.cuda.memory_reserved(),
            "allocated": sum(s["allocated_size"] for s in segments) == current(),
            "tiled": all(sum(b["size"] for b in s["blocks"]) == s["total_size"] for s in segments),
            "found": [each.data_ptr() in addresses for each in kept],
            "keys": sorted(segments[0]), "block_keys": sorted(blocks[0])}


def history() -> dict:
    """The recorded history, as a file that PyTorch's own viewer reads."""
    from torch.cuda import _memory_viz

    torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python")
    kept = block(6)
    pointer = kept.data_ptr()
    freed = block(2)
    del freed
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        torch.cuda.memory._dump_snapshot(file.name)
        data = pickle.loads(Path(file.name).read_bytes())
    torch.cuda.memory._record_memory_history(enabled=None)
    trace = data["device_traces"][torch.cuda.current_device()]
    actions = [entry["action"] for entry in trace if entry["action"] in
               ("alloc", "free_requested", "free_completed")]
    mine = next(entry for entry in trace
                if entry["action"] == "alloc" and entry["addr"] == pointer)
    owner = [each for segment in data["segments"] for each in segment["blocks"]
             if each["address"] == pointer]
    pages = [_memory_viz.trace_plot(data), _memory_viz.segment_plot(data),
             _memory_viz.segsum(data), _memory_viz.trace(data)]
    times = [entry["time_us"] for entry in trace]
    return {"actions": actions, "bytes": mine["size"],
            "stack": any(frame["name"] == "history" for frame in mine["frames"]),
            "owner_stack": any(frame["name"] == "history" for frame in owner[0]["frames"]),
            "ordered": times == sorted(times), "pages": [len(page) > 100 for page in pages]}


def noted() -> dict:
    """Events have the user's words, and memory that comes and goes has the stack of who asked."""
    torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python", context="all")
    torch._C._cuda_setMemoryMetadata("of a test")
    kept = block(30)
    torch._C._cuda_setMemoryMetadata("")
    if hasattr(torch._C, "_cuda_annotateMemory"):  # as of PyTorch 2.15
        torch._C._cuda_annotateMemory(kept.data_ptr(), "later words")
    del kept
    torch.cuda.empty_cache()
    trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    torch.cuda.memory._record_memory_history(enabled=None)

    def said(*actions: str) -> list:
        entries = [entry for entry in trace if entry["action"] in actions]
        return [sorted({entry["user_metadata"] for entry in entries}),
                sorted({entry["compile_context"] for entry in entries}),
                all(any(frame["name"] == "noted" for frame in entry.get("frames", []))
                    for entry in entries)]

    return {"taken": said("segment_alloc", "segment_map"), "alloc": said("alloc"),
            "annotated": said("annotate"), "freed": said("free_requested"),
            "given_back": said("segment_free", "segment_unmap")}


def streams() -> dict:
    """Memory used on another stream is not handed out again before that stream is through."""
    side = torch.cuda.Stream()
    used = block(8)
    pointer = used.data_ptr()
    device.set(late=1000)
    torch.cuda._sleep(1000)
    with torch.cuda.stream(side):
        used.add_(1)
    used.record_stream(side)
    del used
    active = torch.cuda.memory_stats()["active_bytes.all.current"] - current()
    early = block(8)
    facts = {"active": active, "reused_early": early.data_ptr() == pointer}
    device.set(late=0)
    torch.cuda.synchronize()
    del early
    return facts


def raw_calls() -> dict:
    """Memory by address, for libraries that manage it themselves."""
    before = current()
    address = torch.cuda.caching_allocator_alloc(5 * MIB)
    more = current() - before
    torch.cuda.caching_allocator_delete(address)
    return {"more": more, "after": current() - before,
            "nothing": torch.cuda.caching_allocator_alloc(0) in (0, None)}


def misused() -> dict:
    """Addresses of no block are errors, and change nothing."""
    address = torch.cuda.caching_allocator_alloc(5 * MIB)
    other = torch.cuda.caching_allocator_alloc(5 * MIB)
    torch.cuda.caching_allocator_delete(other)
    before, host = current(), torch.zeros(10)
    errors = []
    for wrong in (other, address + 512, address + 1, host.data_ptr()):
        try:
            torch.cuda.caching_allocator_delete(wrong)
            errors.append("none")
        except RuntimeError as error:
            text = str(error).replace(f"{wrong:#x}", "ADDRESS")
            errors.append(text.split(" (")[0].split("\n")[0])
    try:
        torch.cuda.caching_allocator_alloc(2**63 - 1)
    except torch.OutOfMemoryError as error:
        errors.append(str(error).split(".")[0])
    changed = current() - before
    torch.cuda.caching_allocator_delete(address)
    return {"errors": errors, "changed": changed}


def foreign_streams() -> dict:
    """Memory that another device's stream uses is not used again before that."""
    device.watch_allocator()
    x = torch.empty(1 << 20, device="cuda:0")
    address, size = x.data_ptr(), x.untyped_storage().nbytes()
    stream = torch.cuda.Stream("cuda:1")
    stream.wait_stream(torch.cuda.current_stream("cuda:0"))
    with torch.cuda.stream(stream):
        torch.ones(10, device="cuda:1").add_(1)
    device.used(address, size, stream.cuda_stream)
    device.shared(address, stream.cuda_stream)
    x.record_stream(stream)
    x.record_stream(torch.cuda.default_stream("cuda:1"))
    del x
    same = []
    for _ in range(3):
        y = torch.empty(1 << 20, device="cuda:0").fill_(1)
        same.append(y.data_ptr() == address)
        del y
        torch.cuda.synchronize("cuda:1")
    return {"races": device.races(), "reused": any(same)}


def graphs() -> dict:
    """A captured graph keeps its memory in a pool of its own."""
    source = block(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = source * 2 + 1
    pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()
             if segment["address"] <= result.data_ptr()
             < segment["address"] + segment["total_size"]}
    graph.replay()
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=graph.pool()):
        more = result + 1
    second.replay()
    torch.cuda.synchronize()
    facts = {"own": pools == {graph.pool()}, "shared": second.pool() == graph.pool()}
    del result, more
    graph.reset()
    second.reset()
    callable_ = torch.cuda.make_graphed_callables(nn.Linear(64, 64).cuda(),
                                                  (torch.randn(4, 64, device="cuda"),))
    callable_(torch.randn(4, 64, device="cuda")).sum().backward()
    return facts


def trees() -> dict:
    """What the compiler's graph trees ask of the allocator."""
    pool, index = torch.cuda.graph_pool_handle(), torch.cuda.current_device()
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    source = block(1)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(graph, pool=pool, stream=stream):
        kept = source + 1
    storage = kept.untyped_storage()
    address, size_bytes = storage.data_ptr(), storage.nbytes()
    facts = {"live": torch._C._cuda_checkPoolLiveAllocations(index, pool, {address}),
             "deleter": torch._C._has_Standard_Deleter(storage._cdata)}
    state = torch._C._cuda_getCheckpointState(index, pool)
    del kept, storage
    facts["dead"] = torch._C._cuda_checkPoolLiveAllocations(index, pool, set())
    again = torch._C._construct_storage_from_data_pointer(
        address, torch.device("cuda", index), size_bytes)
    torch._C._cuda_setCheckpointPoolState(index, state, [], [again._cdata])
    facts["back"] = torch._C._cuda_checkPoolLiveAllocations(index, pool, {address})
    facts["deleter_again"] = torch._C._has_Standard_Deleter(again._cdata)
    torch._C._cuda_beginAllocateCurrentThreadToPool(index, pool)
    inside = block(1)
    torch._C._cuda_endAllocateToPool(index, pool)
    facts["inside"] = torch._C._cuda_checkPoolLiveAllocations(
        index, pool, {address, inside.data_ptr()})
    del again, inside
    facts["freed"] = torch._C._cuda_checkPoolLiveAllocations(index, pool, set())
    torch._C._cuda_releasePool(index, pool)
    return facts


def mem_pools() -> dict:
    """A MemPool's memory is its own, also for use as a last resort."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = block(4)
    outside = block(4)
    segments = pool.snapshot()

    def is_inside(tensor: torch.Tensor) -> bool:
        return any(s["address"] <= tensor.data_ptr() < s["address"] + s["total_size"]
                   for s in segments)

    facts = {"inside": is_inside(inside), "outside": is_inside(outside),
             "uses": pool.use_count()}
    del inside, outside
    return facts


def pinned() -> dict:
    """Pinned host memory, copied without waiting."""
    host = torch.arange(1000).pin_memory()
    there = host.to("cuda", non_blocking=True)
    return {"pinned": host.is_pinned(), "equal": bool((there.cpu() == host).all())}


def profiled() -> dict:
    """The profiler hears of allocations."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        kept = block(7)
        del kept
    events = [event for event in run.profiler.kineto_results.events()
              if event.name() == "[memory]"]
    return {"bytes": [event.nbytes() for event in events if abs(event.nbytes()) >= MIB]}


def observed() -> dict:
    """Observers hear of an error before it is raised; the job goes on after it."""
    heard = []
    torch._C._cuda_attach_out_of_memory_observer(
        lambda index, wanted, total, free: heard.append([index, total]))
    before = torch.cuda.memory_stats()
    kept = block(16)
    del kept
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        facts = {"error": None}
    except torch.cuda.OutOfMemoryError as error:
        facts = {"error": str(error).split(". Tried")[0]}
    after = torch.cuda.memory_stats()
    facts["ooms"] = after["num_ooms"] - before["num_ooms"]
    facts["retried"] = after["num_alloc_retries"] > before["num_alloc_retries"]
    facts["heard"] = heard[:]  # others come to hear of later errors
    facts["goes_on"] = block(16).numel()
    return facts


def pool_observed() -> dict:
    """A request that a pool cannot serve is one error, however it was tried."""
    heard = []
    torch._C._cuda_attach_out_of_memory_observer(
        lambda index, wanted, total, free: heard.append(wanted))
    torch.cuda.reset_accumulated_memory_stats()
    pool, error = torch.cuda.MemPool(), None
    try:
        with torch.cuda.use_mem_pool(pool):
            torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as raised:
        error = type(raised).__name__
    return {"error": error, "ooms": torch.cuda.memory_stats()["num_ooms"], "heard": len(heard)}


def saved() -> dict:
    """Tensors are written to files, and read again."""
    file = io.BytesIO()
    tensor = torch.arange(1000.0).to("cuda")
    torch.save({"tensor": tensor, "view": tensor[10:20]}, file)
    file.seek(0)
    read = torch.load(file)
    return {"device": str(read["tensor"].device), "equal": bool((read["tensor"].cpu()
                                                                 == torch.arange(1000.0)).all()),
            "shared": read["tensor"].data_ptr() + 40 == read["view"].data_ptr()}


def shared() -> dict:
    """Another process maps the memory of a tensor."""
    tensor = torch.arange(1000.0).to("cuda")
    view = tensor[100:]
    handle = tensor.untyped_storage()._share_cuda_()
    program = ("import pickle, sys, torch\n"
               "torch.cuda.init()\n"
               "storage = torch.UntypedStorage._new_shared_cuda(*pickle.load(sys.stdin.buffer))\n"
               "read = torch.empty(0, device='cuda').set_(storage, 0, (1000,))\n"
               "print(read.cpu().sum().item())\n")
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(handle),
                          capture_output=True, check=False)
    return {"read": done.stdout.decode(), "status": done.returncode,
            "here": tensor.cpu().sum().item(), "view": view.cpu().sum().item()}


def peers() -> dict:
    """Copies between devices, of memory from before and after they can reach each other's."""
    if torch.cuda.device_count() < 2:
        return {}
    source = torch.arange(5000.0).to("cuda:0")
    there = source.to("cuda:1")
    back = there.to("cuda:0")
    equal = [bool((back.cpu() == torch.arange(5000.0)).all())]
    values = torch.arange(3 << 20)  # for memory that nobody has had before
    equal.append(bool((values.to("cuda:1").to("cuda:0").cpu() == values).all()))
    return {"equal": equal, "allocated": torch.cuda.memory_allocated(1)}


def backends() -> dict:
    """What programs ask before they do something special."""
    return {"backend": torch.cuda.get_allocator_backend(),
            "accelerator": torch.accelerator.memory_allocated() == torch.cuda.memory_allocated(),
            "largest": torch.cuda.mem_get_info()[1]}


def disabled() -> dict:
    """Caching can be switched off for a while, also while blocks of either kind are in use."""
    cached = block(4)
    torch.cuda.caching_allocator_enable(False)
    kept = block(4)
    size = kept.numel()
    before = current()
    del cached
    freed = current() - before
    torch.cuda.caching_allocator_enable(True)
    side = torch.cuda.Stream()
    device.set(late=1000)
    with torch.cuda.stream(side):
        kept.add_(1)
    del kept
    device.set(late=0)
    torch.cuda.synchronize()
    return {"size": size, "freed": freed, "goes_on": block(4).numel()}


FACES = {face.__name__: face for face in (
    statistics, summary, emptied, fraction, snapshot, history, streams, raw_calls, misused, graphs,
    trees, mem_pools, pinned, profiled, observed, pool_observed, saved, shared, peers, backends,
    disabled, foreign_streams, noted)}


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--enable"]:
        torch.zeros(10, device="cuda")
        import tidepool

        tidepool.enable(arguments[1], device="cuda")
        arguments = arguments[2:]
    said = {}
    for name in arguments or FACES:
        clean_up()
        said[name] = {**FACES, "limited": limited}[name]()
    clean_up()
    print(json.dumps({**said, "misuses": device.misuses()}), flush=True)
    os._exit(0)  # see training_jobs.py


if __name__ == "__main__":
    main()
