"""Small jobs whose tensors NCCL reads and writes by address: one process, one rank or two devices.

    python nccl_jobs.py NAME...

Run and read as remat_jobs.py.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable

from remat_jobs import EVICTED, evict_all, main, prints, state

import torch  # isort: skip  after the stand-in's part of remat_jobs
from torch import distributed, nn
from torch.distributed import _functional_collectives as functional
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import fully_shard

LENGTH = 4096
STEPS = 3


def numbers(seed: int, device: str = "cuda:0") -> torch.Tensor:
    """Return what operators have made, so that it can be made again."""
    return torch.arange(float(LENGTH), device=device).add(seed).sin()


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))


def trained(model: nn.Module, whole: nn.Module) -> dict:
    """Train, and return the parameters' prints."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    evicted = 0
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(numbers(1)[:1024].view(16, 64)).square().sum()
        evicted += evict_all()
        loss.backward()
        evicted += evict_all()
        optimizer.step()
    torch.cuda.synchronize()
    parameters = [getattr(each, "to_local", lambda each=each: each)()
                  for each in whole.parameters()]
    return {"prints": prints(*parameters), "evicted": evicted}


class Holder:
    """Holds a tensor, which futures find in it by pickling."""

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held


def registered_bytes() -> int:
    """Return how much memory has been registered with NCCL."""
    library = ctypes.CDLL("libfake_nccl.so", mode=os.RTLD_NOLOAD)
    count = library.fake_nccl_registered_bytes
    count.restype = ctypes.c_size_t
    return count()


def alone(job: Callable[[], dict]) -> Callable[[], dict]:
    """Have a job be the only rank of a process group."""
    @functools.wraps(job)
    def run() -> dict:
        distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1)
        try:
            return {**job(), "registered_bytes": registered_bytes()}
        finally:
            distributed.destroy_process_group()
    return run


def data_parallel() -> dict:
    """Train on two devices by DataParallel."""
    model = network().cuda()
    return trained(nn.DataParallel(model, [0, 1]), model)


def between_devices() -> dict:
    """Call what `torch.cuda.nccl` has."""
    from torch.cuda import nccl
    devices = ("cuda:0", "cuda:1")
    inputs = [numbers(k, device) for k, device in enumerate(devices)]
    summed = [torch.zeros_like(each) for each in inputs]
    gathered = [torch.zeros(2 * LENGTH, device=device) for device in devices]
    scattered = [torch.zeros(LENGTH // 2, device=device) for device in devices]
    rooted = torch.zeros(LENGTH, device=devices[0]).add(0)
    spread = [numbers(7, device) for device in devices]
    evicted = evict_all()
    nccl.all_reduce(inputs, summed)
    evicted += evict_all()
    nccl.all_gather(inputs, gathered)
    evicted += evict_all()
    nccl.reduce_scatter(inputs, scattered)
    evicted += evict_all()
    nccl.reduce(inputs, rooted, root=0)
    evicted += evict_all()
    nccl.broadcast(spread, root=0)
    evicted += evict_all()
    results = [each.mul(2) for each in (*inputs, *summed, *gathered, *scattered, rooted, *spread)]
    evicted += evict_all()
    torch.cuda.synchronize()
    return {"prints": prints(*results), "evicted": evicted}


@alone
def collectives() -> dict:
    """Call collectives, wait for them late, and evict what may leave between."""
    x, y, into = numbers(1), numbers(2), torch.zeros(LENGTH, device="cuda")
    evicted = evict_all()
    works = [distributed.all_reduce(x, async_op=True),
             distributed.all_gather_into_tensor(into, y, async_op=True)]
    evicted += evict_all()
    z = numbers(3)
    for work in works:
        work.wait()
    evicted += evict_all()
    shares = torch.zeros(LENGTH, device="cuda")
    distributed.reduce_scatter_tensor(shares, z)
    parts = [torch.zeros(LENGTH, device="cuda")]
    distributed.all_gather(parts, x)
    distributed.broadcast(y, src=0)
    evicted += evict_all()
    sums = functional.all_reduce(x.cos(), "sum", distributed.group.WORLD)
    evicted += evict_all()
    results = [each.mul(2) for each in (x, y, z, into, shares, *parts, sums)]
    evicted += evict_all()
    torch.cuda.synchronize()
    return {"prints": prints(*results), "evicted": evicted}


@alone
def collectives_together() -> dict:
    """Start collectives as one, which have not begun when they return."""
    inputs, results = [numbers(k) for k in range(3)], []
    evicted = evict_all()
    for device in (None, inputs[0].device):  # with one, each collective is asked for by itself
        with distributed._coalescing_manager(device=device, async_ops=True) as together:
            for each in inputs:
                distributed.all_reduce(each, async_op=device is not None)
                evicted += evict_all()
        made = numbers(5)
        together.wait()
        evicted += evict_all()
        results += [each.mul(made) for each in inputs]
    torch.cuda.synchronize()
    return {"prints": prints(*results), "evicted": evicted}


@alone
def distributed_data_parallel() -> dict:
    """Train under DistributedDataParallel."""
    model = network().cuda()
    return trained(nn.parallel.DistributedDataParallel(model, device_ids=[0]), model)


@alone
def hooked() -> dict:
    """Train under DistributedDataParallel with hooks that go on when collectives are done."""
    model = network().cuda()
    parallel = nn.parallel.DistributedDataParallel(model, device_ids=[0])
    parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return trained(parallel, model)


@alone
def hooked_in_c() -> dict:
    """Train under DistributedDataParallel with the hooks that it brings."""
    model = network().cuda()
    parallel = nn.parallel.DistributedDataParallel(model, device_ids=[0])
    parallel._register_builtin_comm_hook(distributed.BuiltinCommHookType.FP16_COMPRESS)
    return trained(parallel, model)


@alone
def futures() -> dict:
    """Wait for what follows a collective, and evict it before."""
    x = numbers(1)
    y = x.mul(2)
    future = distributed.all_reduce(y, async_op=True).get_future()
    followed = future.then(lambda done: done.value()[0].mul(2).add(1))
    evicted = evict_all()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        z = followed.wait()
        z = z.mul(x)
    evicted += evict_all()
    torch.cuda.current_stream().wait_stream(side)
    holding = torch.futures.Future(devices=["cuda:0"])
    holding.set_result(Holder(z.add(1)))
    evicted += evict_all()
    results = [x.mul(2), z.mul(3), holding.wait().held.mul(2)]
    torch.cuda.synchronize()
    return {"prints": prints(*results), "evicted": evicted}


def left(*tensors: torch.Tensor) -> list[bool]:
    """Return which of them are evicted, once what may leave has left."""
    numbers(0)  # it is operators that notice what has ended
    evict_all()
    return [state(each) == EVICTED for each in tensors]


@alone
def left_afterwards() -> dict:
    """Say what has left of what collectives worked on, and of what was computed from it."""
    sums = functional.wait_tensor(
        functional.all_reduce(numbers(1), "sum", distributed.group.WORLD))
    waited, gathered = numbers(2), torch.zeros(LENGTH, device="cuda")
    distributed.all_reduce(waited, async_op=True).wait()
    distributed.all_gather_into_tensor(gathered, numbers(3))
    held = numbers(4)
    future = distributed.all_reduce(held, async_op=True).get_future()
    numbers(0)
    computed = [each.cos() for each in (sums, waited, gathered)]
    says = {"computed": left(*computed), "worked_on": left(sums, waited, gathered),
            "held": left(held)}
    future.wait()
    del future
    says["dropped"] = left(held)
    together = [numbers(k) for k in range(2)]
    with distributed._coalescing_manager(device=sums.device, async_ops=True) as works:
        for each in together:
            distributed.broadcast(each, src=0, async_op=True)
            numbers(0)
    works.wait()
    del works
    says["together"] = left(*together)
    backend = distributed.group.WORLD._get_backend(sums.device)
    says["grouped"] = type(backend).__name__ == "ProcessGroupNCCL"
    results = [each.mul(2) for each in (sums, waited, gathered, held, *computed, *together)]
    torch.cuda.synchronize()
    return {"prints": prints(*results), "evicted": len(says), **says}


@alone
def never_waited_for() -> dict:
    """Drop the works of collectives, and use what these read, and its memory, meanwhile."""
    read = [numbers(k) for k in range(4)]
    into = [torch.zeros(LENGTH, device="cuda") for _ in read]
    for target, each in zip(into, read, strict=True):
        distributed.all_gather_into_tensor(target, each, async_op=True)
    numbers(0)
    evicted = evict_all()
    made = [numbers(10 + k) for k in range(8)]
    torch.cuda.synchronize()
    results = [each.mul(2) for each in (*read, *into, *made)]
    torch.cuda.synchronize()
    return {"prints": prints(*results), "evicted": evicted}


@alone
def sharded() -> dict:
    """Train under FSDP2."""
    model = network().cuda()
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    return trained(model, model)


CASES = {case.__name__: case for case in (
    data_parallel, between_devices, collectives, collectives_together, distributed_data_parallel,
    hooked, hooked_in_c, futures, left_afterwards,
    never_waited_for, sharded)}

if __name__ == "__main__":
    main(CASES, sys.argv[1:])
