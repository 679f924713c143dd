"""Small jobs on the stand-in CUDA device with value kernels: streams, graphs, devices, memory.

    python remat_jobs.py NAME...

Each case returns what a job sees; one line of JSON on standard output has it by case, with races
and misuses. Under Tidepool a case may evict by hand; without, that does nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin

import value_kernels  # isort: skip  before torch
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

device = standin.Device()
GRAPH_ROUNDS = 3
ATTENTION = ("flash", "mem_efficient", "math", "cudnn", "fa3", "fa4")
DRAWING_ATTENTION = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
                     SDPBackend.CUDNN_ATTENTION)
RESIDENT_ROOT, EVICTED = 1, 3  # as tidepool_state() has them


def plugin():
    """Return the attached plugin, or None."""
    tidepool = sys.modules.get("tidepool")
    if tidepool is None:
        return None
    from tidepool.job import _job
    return _job.current().plugin if _job.current() else None


def evict_all() -> int:
    """Evict what can be, under Tidepool; return how many storages."""
    return plugin().evict_all() if plugin() else 0


def state(tensor: torch.Tensor) -> int:
    """Return the plugin's state of a storage, 0 without Tidepool."""
    return plugin().state(tensor.untyped_storage()._cdata) if plugin() else 0


def prints(*tensors: torch.Tensor) -> list[str]:
    return [value_kernels.fingerprint([tensor]) for tensor in tensors]


def restored_on_a_side_stream(size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Evict all, and read y = sin(x) on a side stream; return x, y, what was read, and the count.

    The side stream has waited for the default one; the default one waits for nothing.
    """
    side = torch.cuda.Stream()
    x = torch.randn(size, size, device="cuda")
    y = x.sin()
    side.wait_stream(torch.cuda.current_stream())
    evicted = evict_all()
    with torch.cuda.stream(side):
        on_side = y.cos()
    return x, y, on_side, evicted


def other_stream_restores() -> dict:
    """Restore on a side stream what the default stream reads next, without waiting for it."""
    _, y, on_side, evicted = restored_on_a_side_stream(64)
    here = y.exp()
    torch.cuda.synchronize()
    return {"prints": prints(on_side, here), "evicted": evicted}


def input_written_after_a_hidden_read() -> dict:
    """Write in place what a replay on a side stream has just read."""
    x, _, on_side, evicted = restored_on_a_side_stream(64)
    x.mul_(2)  # nothing that the job has done on the side stream reads it
    torch.cuda.synchronize()
    return {"prints": prints(on_side, x), "evicted": evicted}


def input_dies_after_a_hidden_read() -> dict:
    """Free what a replay on a side stream has just read, and use its memory again."""
    x, _, on_side, evicted = restored_on_a_side_stream(256)
    del x
    z = torch.ones(256, 256, device="cuda")
    torch.cuda.synchronize()
    return {"prints": prints(on_side, z), "evicted": evicted}


def recorded_while_evicted() -> dict:
    """Record a stream for an evicted tensor, use it there, and free it."""
    side = torch.cuda.Stream()
    y = torch.randn(256, 256, device="cuda").sin()
    side.wait_stream(torch.cuda.current_stream())
    evicted = evict_all()
    before = state(y)
    y.record_stream(side)
    after = state(y)
    shared = y.is_shared()  # as CUDA's tensors always are
    y.exp()  # restores it on the default stream
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        on_side = y.cos()
    del y
    z = torch.ones(256, 256, device="cuda")
    torch.cuda.synchronize()
    return {"prints": prints(on_side, z), "evicted": evicted, "states": [before, after],
            "shared": shared}


def captured() -> dict:
    """Capture a graph that reads an evicted tensor, and one that came to be during the capture."""
    x = torch.randn(64, 64, device="cuda")
    y, still = x.sin(), x.tan()
    evicted = evict_all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = y.cos()
        during = evict_all()
    captured_states = [state(x), state(y)]
    for _ in range(GRAPH_ROUNDS):
        y.copy_(still)
        graph.replay()
        evict_all()
    torch.cuda.synchronize()
    found = {"prints": prints(x, y, still, z), "computed": prints(z) == prints(still.cos()),
             "evicted": evicted, "during": during, "states": captured_states,
             "after": [state(y), state(z)]}
    graph.reset()
    return found


def captured_draws() -> dict:
    """Capture a graph that draws: the seeds that it reads are written by an operator each time."""
    own = torch.Generator("cuda").manual_seed(7)
    x = torch.ones(64, 64, device="cuda")
    noise = torch.empty(64, 64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(own)
    evict_all()
    with torch.cuda.graph(graph):
        torch.nn.functional.dropout(x, 0.5)
        noise.normal_(generator=own)
    evicted = []
    for _ in range(GRAPH_ROUNDS):
        graph.replay()
        evicted.append(evict_all())
    torch.cuda.synchronize()
    graph.reset()
    return {"prints": prints(x), "between_replays": evicted}


def two_devices() -> dict:
    """Evict on both of two devices, and read across."""
    x, y = torch.randn(64, 64, device="cuda:0"), torch.randn(64, 64, device="cuda:1")
    a, b = x.sin(), y.cos()
    evicted = evict_all()
    there = a.to("cuda:1")
    evicted_again = evict_all()
    both = there * b
    b.copy_(a)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    return {"prints": prints(a, b, there, both), "evicted": evicted,
            "evicted_again": evicted_again}


def drawn() -> dict:
    """Draw with the default generator and one of the job's own, and evict what was drawn."""
    torch.manual_seed(3)
    own = torch.Generator("cuda").manual_seed(7)
    x = torch.ones(64, 64, device="cuda")
    dropped = torch.nn.functional.dropout(x, 0.5)
    noise = torch.empty(64, 64, device="cuda").normal_(generator=own)
    like = torch.rand_like(x)
    anew = [device.recurrent_layer_begins()]
    evicted = evict_all()
    more = torch.rand(8, device="cuda")
    offsets = [torch.cuda.default_generators[0].get_offset(), own.get_offset()]
    found = prints(dropped, noise, like, more)
    offsets += [torch.cuda.default_generators[0].get_offset(), own.get_offset()]
    anew.append(device.recurrent_layer_begins())
    return {"prints": found, "offsets": offsets, "anew": anew, "evicted": evicted}


def drawn_by_attention() -> dict:
    """Attend with dropout by each library, which draws from the default generator, and evict."""
    torch.manual_seed(3)
    found, states = [], []
    for library in DRAWING_ATTENTION:
        heads = [torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                 for _ in range(3)]
        with sdpa_kernel(library):
            attended = F.scaled_dot_product_attention(*heads, dropout_p=0.25)
        offset = torch.cuda.default_generators[0].get_offset()
        evict_all()
        states.append(state(attended))
        found += prints(attended)
        evict_all()
        attended.backward(torch.ones_like(attended))  # it reads where the draw began
        found += prints(*(each.grad for each in heads))
        found.append(torch.cuda.default_generators[0].get_offset() - offset)
    return {"prints": found, "states": states}


def drawn_by_two_threads() -> dict:
    """Draw by two threads from one generator, and evict: each has what it has drawn before."""
    x = torch.ones(64, 64, device="cuda")
    wrong: list[int] = []

    def draw() -> None:
        for number in range(200):
            dropped = F.dropout(x, 0.5)
            expected = dropped.clone()
            if plugin():
                plugin().evict(dropped.untyped_storage()._cdata)
            if not torch.equal(dropped, expected):
                wrong.append(number)

    threads = [threading.Thread(target=draw) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"prints": [], "wrong": wrong}


@contextlib.contextmanager
def drawing_as_a_graph() -> Iterator[None]:
    """Draw as compiled graphs do, under Tidepool."""
    if not plugin():
        yield
        return
    with plugin().draws(0) as draws:
        before = plugin().thread(0)
        with plugin().drawing(draws):
            yield
        plugin().thread(before)


def drawn_in_turns() -> dict:
    """Draw as a graph does, while another thread wants to, which has to wait, and sets a state."""
    torch.manual_seed(5)
    x = torch.ones(64, 64, device="cuda")
    order, dropped = [], []

    def drop() -> None:
        dropped.append(F.dropout(x, 0.5))
        order.append("thread")

    thread = threading.Thread(target=drop)
    with drawing_as_a_graph():
        if plugin():
            plugin().thread(1)  # which the new thread inherits
            thread.start()
            plugin().thread(0)
            thread.join(0.5)
        drawn = torch.rand(64, device="cuda")
        order.append("graph")
    if not plugin():
        thread.start()
    thread.join()
    generator = torch.cuda.default_generators[0]
    offsets = [generator.get_offset()]
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for offset in (1000, 1200, 8):
            with drawing_as_a_graph():
                torch.rand(64, device="cuda")
                generator.set_offset(offset)
            offsets.append(generator.get_offset())
    return {"prints": [*prints(drawn, *dropped), *map(str, offsets)], "order": order,
            "warnings": [str(each.message) for each in given]}


def scalars_of_the_host() -> dict:
    """Use numbers and small CPU tensors that change after they were read."""
    x = torch.randn(64, 64, device="cuda")
    factor = torch.tensor(0.5)
    y, z = x * factor, x * 0.25
    factor.fill_(2.0)
    pinned = torch.tensor(0.125).pin_memory()  # a device may have yet to write it
    kept = x * pinned
    pinned.fill_(3.0)
    evicted = evict_all()
    return {"prints": prints(y, z, kept), "evicted": evicted, "states": [state(kept)]}


def arrived() -> dict:
    """Bring a tensor to the device within an operator that nobody vouches for, and outside."""
    inside = []

    @torch.library.custom_op("remat_jobs::there_and_back", mutates_args=())
    def there_and_back(x: torch.Tensor) -> torch.Tensor:
        there = x.cuda()
        inside.append(state(there))
        return there.cpu()

    x = torch.randn(64, 64)
    back = there_and_back(x)
    there = x.cuda()
    return {"prints": prints(there, back.cuda()), "states": [*inside, state(there)]}


def varying() -> dict:
    """Compute what varies from run to run on a GPU: it stays."""
    index = torch.arange(64, device="cuda")
    x = torch.randn(64, 64, device="cuda")
    added = torch.zeros(64, 64, device="cuda").index_add(0, index, x)
    steady = x.sin()
    evict_all()
    return {"prints": prints(added, steady), "states": [state(added)]}


def benchmarked() -> dict:
    """Convolve before plans were tried, while they are, and afterwards: the later results stay."""
    x, w = torch.randn(2, 4, 8, 8, device="cuda"), torch.randn(4, 4, 3, 3, device="cuda")
    made = [F.conv2d(x, w)]
    evict_all()
    states = [state(made[0])]
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    made.append(F.conv2d(x, w))
    torch.backends.cudnn.benchmark = before
    made.append(F.conv2d(x, w))
    evict_all()
    return {"prints": prints(*made), "states": [*states, *map(state, made[1:])]}


def switches() -> list[tuple[str, Callable[[], object], Callable[[object], None], object]]:
    """Return what decides CUDA's kernels: its name, how it is read and set, and another value."""
    found = [(name, getattr(torch._C, f"_get_{name}"), getattr(torch._C, f"_set_{name}"))
             for name in ("cudnn_enabled", "cudnn_benchmark", "cudnn_deterministic",
                          "cudnn_allow_tf32", "cublas_allow_fp16_accumulation",
                          "sm_carveout_experimental", "cublaslt_prefer_grouped_gemm",
                          "native_aot_enabled", "native_aot_unconditional_masked",
                          "cudnn_depthwise_kernel", "linalg_preferred_backend",
                          "blas_preferred_backend", "math_sdp_allow_fp16_bf16_reduction",
                          "sdp_priority_order", "qengine")
             if hasattr(torch._C, f"_get_{name}")]
    for name in ATTENTION:
        if hasattr(torch._C, f"_set_sdp_use_{name}"):
            found.append((name, getattr(torch._C, f"_get_{name}_sdp_enabled"),
                          getattr(torch._C, f"_set_sdp_use_{name}")))
    for name in ("fp16", "bf16"):
        reduction = f"cublas_allow_{name}_reduced_precision_reduction"
        get = getattr(torch._C, f"_get_{reduction}")
        put = getattr(torch._C, f"_set_{reduction}")
        found.append((reduction, get, lambda value, put=put: put(*value)))
    engines = [engine for engine in torch._C._supported_qengines() if engine != 0]
    others = {"sm_carveout_experimental": 8, "cudnn_depthwise_kernel": "native",
              "sdp_priority_order": [4, 3, 0, 2, 1],
              "qengine": next(engine for engine in engines if engine != torch._C._get_qengine()),
              "linalg_preferred_backend": torch._C._LinalgBackend.Magma,
              "blas_preferred_backend": torch._C._BlasBackend.Cublaslt}

    def other(name: str, value: object) -> object:
        if isinstance(value, tuple):
            return (False, True)
        return others.get(name, not value)

    return [(name, get, put, other(name, get())) for name, get, put in found]


def switched() -> dict:
    """Change each switch behind an operator: its result is a root then, but for attention's."""
    known = switches()
    x = torch.randn(64, 64, device="cuda")
    wrong = []
    for name, get, put, other in known:
        before = get()
        put(other)
        changed = get() != before
        y = x.sin()
        evict_all()
        put(before)
        chooses_kernel = "sdp" in name or name in ATTENTION
        expected = (EVICTED,) if chooses_kernel else (RESIDENT_ROOT,)
        settled = plugin() is None or state(y) in expected
        if not changed or not settled or get() != before:
            wrong.append((name, changed, settled, str(get())))
    return {"prints": [], "wrong": wrong, "switches": len(known)}


def workspace_refused() -> dict:
    """Convolve with workspaces that no budget has room for."""
    device.set(dnn_workspace="1GiB")
    weight = torch.randn(8, 3, 3, 3, device="cuda")
    results = [F.conv2d(torch.randn(2, 3, size, size, device="cuda"), weight) for size in (16, 17)]
    device.set(dnn_workspace=0)
    evict_all()
    return {"prints": prints(*results), "states": [state(result) for result in results]}


def replay_refused() -> dict:
    """Restore what was convolved with a workspace while there is no room for one, and once more."""
    device.set(dnn_workspace="64MiB")
    weight = torch.randn(8, 3, 3, 3, device="cuda")
    y = F.conv2d(torch.randn(2, 3, 18, 18, device="cuda"), weight)  # no plan is known for it yet
    evicted = evict_all()
    full = torch.empty(224 << 20, dtype=torch.uint8, device="cuda")
    error = ""
    try:
        y.sin()
    except torch.OutOfMemoryError as refused:
        error = str(refused)
    states = [state(y)]
    del full
    torch.cuda.reset_peak_memory_stats()
    found = prints(y)
    device.set(dnn_workspace=0)
    return {"prints": found, "evicted": evicted, "error": error, "states": [*states, state(y)],
            "used_again": torch.cuda.max_memory_allocated()}


def pool_needs_room() -> dict:
    """Have a MemPool's request served where what can be evicted is in the way."""
    base = torch.randn(1 << 20, device="cuda")
    made = [torch.cat([base, base]) for _ in range(6)]  # 8 MiB each
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.zeros(16 << 20, dtype=torch.uint8, device="cuda")
        evicted = sum(state(each) == EVICTED for each in made) if plugin() else 1
        read = [each[:16].clone() for each in made]
    return {"prints": prints(inside[:8].clone(), *read, *made), "evicted": evicted}


def capture_refused() -> dict:
    """Begin captures that the device refuses: none is left behind, and one that follows works.

    It comes last: stock PyTorch 2.11 holds a refused capture for open, and a MemPool that dies
    after one aborts the process.
    """
    x = torch.randn(64, 64, device="cuda")
    refused = 0
    for _ in range(2):
        device.set(fail="capture:1")
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                x.sin()
        except RuntimeError:
            refused += 1
    device.clear_failures()
    torch.empty(1, device="cuda")  # PyTorch 2.11 tells nobody: the next request finds it out
    y = x.sin()
    evicted = evict_all() if plugin() else 1
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.cos()
    return {"prints": [*prints(y), str(refused)], "evicted": evicted}


CASES = {case.__name__: case for case in (
    other_stream_restores, input_written_after_a_hidden_read, input_dies_after_a_hidden_read,
    recorded_while_evicted, captured, captured_draws, two_devices, drawn, drawn_by_attention,
    drawn_by_two_threads, drawn_in_turns, scalars_of_the_host, arrived, varying, switched,
    replay_refused, workspace_refused,  # once a convolution was refused memory, its results stay
    pool_needs_room, capture_refused, benchmarked)}


def found(cases: dict[str, Callable[[], dict]], names: list[str]) -> dict:
    """Run the cases of these names, or all, and return what they found."""
    kernels = value_kernels.install()
    torch.zeros(1, device="cuda")
    device.watch_allocator()
    kernels.watch()
    said = {}
    for name in names or cases:
        torch.manual_seed(0)
        races = len(device.races())
        said[name] = cases[name]()
        said[name]["races"] = device.races()[races:]
    return {**said, "misuses": device.misuses()}


def main(cases: dict[str, Callable[[], dict]], names: list[str]) -> None:
    """Run the cases of these names, or all, and print what they found."""
    print(json.dumps(found(cases, names)), flush=True)
    os._exit(0)  # as the other jobs do


if __name__ == "__main__":
    main(CASES, sys.argv[1:])
