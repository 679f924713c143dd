"""Small jobs of several processes whose tensors NCCL reads and writes, each on a device of its own.

    python nccl_rank_jobs.py RENDEZVOUS NAME...

RANKS is how many processes there are (2); with EAGER=1 communicators are made at once; with
NUMBERED=1 all see the same devices, and each takes the one with its rank's number. Each process
prints one line of JSON, with its rank, and is otherwise as remat_jobs.py.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from unittest import mock

RANKS = int(os.environ.get("RANKS", "2"))
RANK = next((rank for rank in range(1, RANKS) if not os.fork()), 0)  # before PyTorch has threads

from remat_jobs import evict_all, found, prints  # noqa: E402

import torch  # noqa: E402  # isort: skip  after the stand-in's part of remat_jobs
from torch import distributed, nn  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.distributed.tensor.parallel import (  # noqa: E402
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

LENGTH = 4096
STEPS = 2
TYPES = (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bfloat16,
         torch.float16)
REDUCTIONS = {"sum": distributed.ReduceOp.SUM, "max": distributed.ReduceOp.MAX,
              "min": distributed.ReduceOp.MIN, "product": distributed.ReduceOp.PRODUCT}


def numbers(rank: int, seed: int = 0, length: int = LENGTH) -> torch.Tensor:
    """Return what operators have made on this device as any rank would, so that all know it."""
    return torch.arange(float(length), device="cuda").add(100 * seed + rank).sin()


def of_all(seed: int = 0, length: int = LENGTH) -> list[torch.Tensor]:
    """Return on the host what numbers() are for each rank."""
    return [numbers(rank, seed, length).cpu() for rank in range(RANKS)]


def summed(parts: list[torch.Tensor]) -> torch.Tensor:
    """Return the sum in the order of the ranks."""
    return functools.reduce(torch.add, parts)


class Checks:
    """Compares what collectives have made with what the host makes of the same numbers."""

    def __init__(self) -> None:
        self.results: list[torch.Tensor] = []
        self.expected: list[torch.Tensor] = []
        self.evicted = 0

    def add(self, result: torch.Tensor, expected: torch.Tensor) -> None:
        self.results.append(result)
        self.expected.append(expected)
        self.evict()

    def evict(self) -> None:
        self.evicted += evict_all()

    def said(self) -> dict:
        """Return prints of what was made, and which of it is wrong."""
        torch.cuda.synchronize()
        wrong = [k for k, (result, expected) in enumerate(
            zip(self.results, self.expected, strict=True))
            if not torch.equal(result.cpu(), expected)]
        return {"prints": prints(*self.results), "wrong": wrong, "evicted": self.evicted}


def collectives() -> dict:
    """Call each collective."""
    checks, every = Checks(), of_all()
    mine = numbers(RANK)
    total = summed(every)
    share = LENGTH // RANKS
    x = mine.clone()
    distributed.all_reduce(x)
    checks.add(x, total)
    x = mine.clone()
    distributed.all_reduce(x, op=distributed.ReduceOp.AVG)
    checks.add(x, total / RANKS)
    x = torch.zeros(RANKS * LENGTH, device="cuda")
    distributed.all_gather_into_tensor(x, mine)
    checks.add(x, torch.cat(every))
    parts = [torch.zeros(LENGTH, device="cuda") for _ in range(RANKS)]
    distributed.all_gather(parts, mine)
    for part, expected in zip(parts, every, strict=True):
        checks.add(part, expected)
    x = torch.zeros(share, device="cuda")
    distributed.reduce_scatter_tensor(x, mine)
    checks.add(x, total[RANK * share:][:share])
    x = torch.zeros(share, device="cuda")
    distributed.reduce_scatter(x, list(mine.chunk(RANKS)))
    checks.add(x, total[RANK * share:][:share])
    x = mine.clone()
    distributed.broadcast(x, src=RANKS - 1)
    checks.add(x, every[-1])
    x = mine.clone()
    distributed.reduce(x, dst=0)
    if RANK == 0:  # elsewhere it is anything
        checks.add(x, total)
    x = torch.zeros(LENGTH, device="cuda")
    distributed.all_to_all_single(x, mine)
    checks.add(x, torch.cat([each.chunk(RANKS)[RANK] for each in every]))
    parts = [torch.zeros(LENGTH, device="cuda") for _ in range(RANKS)] if RANK == 0 else None
    distributed.gather(mine, parts, dst=0)
    for part, expected in zip(parts or [], every, strict=RANK == 0):
        checks.add(part, expected)
    x = torch.zeros(share, device="cuda")
    distributed.scatter(x, list(mine.chunk(RANKS)) if RANK == 0 else None, src=0)
    checks.add(x, every[0].chunk(RANKS)[RANK])
    distributed.barrier()
    return checks.said()


def reductions() -> dict:
    """Reduce numbers of each type by each operation."""
    checks = Checks()
    for kind in TYPES:
        mine = [numbers(rank, 1, 512).mul(100).to(kind) for rank in range(RANKS)]
        for name, operation in REDUCTIONS.items():
            wide = torch.float32 if kind in (torch.bfloat16, torch.float16) else kind
            host = [each.cpu().to(wide) for each in mine]
            combine = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum,
                       "product": torch.mul}[name]
            x = mine[RANK].clone()
            distributed.all_reduce(x, op=operation)
            checks.add(x, functools.reduce(combine, host).to(kind))
    x = numbers(RANK, 2)
    distributed.all_reduce(x, op=distributed._make_nccl_premul_sum(0.5))
    checks.add(x, summed([each * 0.5 for each in of_all(2)]))
    return checks.said()


def functional_collectives() -> dict:
    """Call collectives that return what they make, and wait for it late."""
    checks, every, ops = Checks(), of_all(3), torch.ops._c10d_functional
    total, share, group = summed(every), LENGTH // RANKS, distributed.group.WORLD.group_name
    mine, blocks = numbers(RANK, 3), [share] * RANKS
    checks.add(ops.all_reduce(mine, "sum", group), total)
    checks.add(ops.all_gather_into_tensor(mine, RANKS, group), torch.cat(every))
    checks.add(ops.reduce_scatter_tensor(mine, "sum", RANKS, group), total[RANK * share:][:share])
    checks.add(ops.all_to_all_single(mine, blocks, blocks, group),
               torch.cat([each.chunk(RANKS)[RANK] for each in every]))
    checks.add(ops.broadcast(mine, 0, group), every[0])
    several = ops.all_reduce_coalesced([mine, numbers(RANK, 4)], "sum", group)
    checks.add(several[0], total)
    checks.add(several[1], summed(of_all(4)))
    checks.results = [ops.wait_tensor(each) for each in checks.results]
    return checks.said()


def between_two() -> dict:
    """Send to the next rank, and receive from the one before, alone and in groups."""
    checks, every = Checks(), of_all(5)
    after, before = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    x = torch.zeros(LENGTH, device="cuda")
    if RANK % 2 == 0:
        distributed.send(numbers(RANK, 5), after)
        distributed.recv(x, before)
    else:
        distributed.recv(x, before)
        distributed.send(numbers(RANK, 5), after)
    checks.add(x, every[before])
    received = [torch.zeros(LENGTH, device="cuda") for _ in range(2)]
    sent = [numbers(RANK, seed) for seed in (6, 7)]
    operations = [distributed.P2POp(distributed.isend, each, after) for each in sent]
    operations += [distributed.P2POp(distributed.irecv, each, before) for each in received]
    works = distributed.batch_isend_irecv(operations)
    checks.evict()
    for work in works:
        work.wait()
    for result, seed in zip(received, (6, 7), strict=True):
        checks.add(result, of_all(seed)[before])
    return checks.said()


def later(compute: Callable[[], torch.Tensor]) -> dict:
    """Start collectives that the others start when the first rank has called compute()."""
    checks, store = Checks(), distributed.distributed_c10d._get_default_store()
    x, y, key = numbers(RANK, 8), numbers(RANK, 9), compute.__name__
    distributed.barrier()  # which makes the communicator
    torch.cuda.synchronize()
    if RANK != 0:
        store.wait([key])
    works = [distributed.all_reduce(each, async_op=True) for each in (x, y)]
    checks.evict()
    early = RANK == 0 and any(work.is_completed() for work in works)
    computed = compute()
    if RANK == 0:
        store.set(key, "")
    for work in works:
        work.wait()
    checks.add(x, summed(of_all(8)))
    checks.add(y, summed(of_all(9)))
    return {**checks.said(), "computed": prints(computed), "early": early}


def one_comes_later() -> dict:
    """Return from a collective that has yet to begin elsewhere."""
    made = numbers(RANK, 10)

    def nothing() -> torch.Tensor:
        return made

    return later(nothing)


def one_computes_meanwhile() -> dict:
    """Compute while a collective has yet to begin elsewhere."""
    def cosines() -> torch.Tensor:
        return numbers(RANK, 10).cos()

    return later(cosines)


def groups() -> dict:
    """Use groups of some ranks, with communicators of their own, at once."""
    checks = Checks()
    mesh = init_device_mesh("cuda", (RANKS // 2, 2), mesh_dim_names=("row", "column"))
    for name in ("row", "column"):
        group = mesh.get_group(name)
        members = distributed.get_process_group_ranks(group)
        x, every = numbers(RANK, 11), of_all(11)
        work = distributed.all_reduce(x, group=group, async_op=True)
        checks.evict()
        work.wait()
        checks.add(x, summed([every[rank] for rank in members]))
    return checks.said()


class Block(nn.Module):
    """A block of a transformer, of many numbers where it is wide."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        heads = [part(y).unflatten(-1, (-1, 8)).transpose(1, 2)
                 for part in (self.query, self.key, self.value)]
        y = nn.functional.scaled_dot_product_attention(*heads)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(x)))


LAYERS, WIDTH, ROWS = 2, 32, 16
LARGE = {"LAYERS": 4, "WIDTH": 128, "ROWS": 256}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(WIDTH) for _ in range(LAYERS))).cuda()


def local(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def trained(model: nn.Module, *, is_split: bool = False) -> dict:
    """Train, and return prints of this rank's losses, last gradients and parameters.

    Where tensors are split, all ranks see the same input, and some parameters are no DTensors.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=not is_split)
    said, evicted = [], 0
    for step in range(STEPS):
        x = numbers(0 if is_split else RANK, step, 2 * ROWS * WIDTH).view(2, ROWS, WIDTH)
        loss = model(x).square().mean()
        evicted += evict_all()
        loss.backward()
        evicted += evict_all()
        said += prints(loss.detach())
        if step == STEPS - 1:
            said += prints(*(local(each.grad) for each in model.parameters()))
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    said += prints(*(local(each) for each in model.parameters()))
    return {"prints": said, "evicted": evicted}


def trained_alike(model: nn.Module) -> dict:
    """Train, and return the prints of what all ranks should have, too."""
    return {**trained(model), "parameters": prints(*model.parameters())}


def replicated() -> dict:
    """Train under DistributedDataParallel; all ranks have the same parameters then."""
    return trained_alike(nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=0.02))


def hooked() -> dict:
    """Train under DistributedDataParallel with a hook that sends short numbers."""
    model = nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=0.02,
                                                gradient_as_bucket_view=True)
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return trained_alike(model)


def shard(**options: object) -> nn.Module:
    model = network()
    for block in model:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def sharded() -> dict:
    """Train under FSDP2."""
    return trained(shard())


def sharded_and_kept() -> dict:
    """Train under FSDP2, which keeps the whole parameters until backward has been there."""
    return trained(shard(reshard_after_forward=False))


def sharded_short() -> dict:
    """Train under FSDP2 with short numbers, which are summed as such."""
    return trained(shard(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                                        reduce_dtype=torch.bfloat16)))


def sharded_and_replicated() -> dict:
    """Train under FSDP2 on a mesh: shards are replicated."""
    mesh = init_device_mesh("cuda", (RANKS // 2, 2), mesh_dim_names=("replicate", "shard"))
    return trained(shard(mesh=mesh))


def split_tensors() -> dict:
    """Train with matrices that are split over the ranks, as DTensors."""
    model = network()
    mesh = init_device_mesh("cuda", (RANKS,))
    for block in model:
        parallelize_module(block, mesh, {
            "query": ColwiseParallel(), "key": ColwiseParallel(), "value": ColwiseParallel(),
            "out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()})
    return trained(model, is_split=True)


def large(case: Callable[[], dict]) -> Callable[[], dict]:
    """Have a case train a network that takes megabytes, and evict nothing by hand."""
    def run() -> dict:
        with mock.patch.dict(globals(), {**LARGE, "evict_all": lambda: 0}):
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            return {**case(), "peak": torch.cuda.max_memory_allocated()}
    return run


def killed() -> dict:
    """The last rank ends while the others wait for it."""
    distributed.all_reduce(numbers(RANK))
    torch.cuda.synchronize()
    if RANK == RANKS - 1:
        os._exit(3)
    x = numbers(RANK)
    distributed.all_reduce(x)
    return {"prints": prints(x)}


CASES: dict[str, Callable[[], dict]] = {case.__name__: case for case in (
    collectives, reductions, functional_collectives, between_two, one_comes_later,
    one_computes_meanwhile, groups,
    replicated, hooked, sharded, sharded_and_kept, sharded_short, sharded_and_replicated,
    split_tensors, killed)}


for trains in (replicated, sharded, split_tensors):
    CASES[f"large_{trains.__name__}"] = large(trains)


def main() -> None:
    torch.set_num_threads(1)
    if "NUMBERED" in os.environ:
        torch.cuda.set_device(RANK)
    store = distributed.FileStore(sys.argv[1], RANKS)
    device = torch.device("cuda", torch.cuda.current_device())
    eager = {"device_id": device} if "EAGER" in os.environ else {}
    distributed.init_process_group("nccl", store=store, world_size=RANKS, rank=RANK, **eager)
    said = found(CASES, sys.argv[2:])
    os.write(1, (json.dumps({"rank": RANK, **said}) + "\n").encode())
    torch.cuda.synchronize()
    statuses = [os.wait()[1] for _ in range(RANKS - 1)] if RANK == 0 else []
    # PyTorch may abort while Python ends, after a backward of several threads.
    os._exit(max(map(os.waitstatus_to_exitcode, statuses), key=abs, default=0))


if __name__ == "__main__":
    main()
