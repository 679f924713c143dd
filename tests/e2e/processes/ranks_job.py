"""Does on several processes what jobs of many do; each prints a digest of what came out of a part.

    python ranks_job.py RENDEZVOUS PART...

RANKS is how many processes there are (2), RANKS_STEPS how many steps they take. With
RANKS_STATISTICS=FOLDER each rank writes Tidepool's statistics there. A rank that fails says so
instead, and ends with status 1.
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

RANKS = int(os.environ.get("RANKS", "2"))
RANK = next((rank for rank in range(1, RANKS) if not os.fork()), 0)  # before PyTorch has threads
os.environ["GLOO_SOCKET_IFNAME"] = "lo"

import torch  # noqa: E402
import torch.distributed as distributed  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.distributed.tensor.parallel import (  # noqa: E402
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

STEPS = int(os.environ.get("RANKS_STEPS", "2"))


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.up(self.norm(x)))
        return x + nn.functional.dropout(self.down(hidden), 0.1)


def model(width: int = 32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width) for _ in range(4)))


def local(tensor):
    tensor = tensor.detach()
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def train(network, see, rows: int = 24, width: int = 32) -> None:
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    torch.manual_seed(1 + RANK)
    for _ in range(STEPS):
        loss = network(torch.randn(rows, width)).square().mean()
        loss.backward()
        see(loss, *(parameter.grad for parameter in network.parameters()))
        optimizer.step()
        optimizer.zero_grad()
    see(*network.parameters())


def replicated(see) -> None:
    """A hook makes tensors of gradients on gloo's threads."""
    network = nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.02, static_graph=True)
    network.register_comm_hook(None, default_hooks.bf16_compress_hook)
    train(network, see)


def lasting(see) -> None:
    """Most memory is of what lasts: parameters, gradients, buckets, and what AdamW keeps."""
    network = nn.parallel.DistributedDataParallel(model(256), bucket_cap_mb=1)
    train(network, see, 64, 256)


def broken(see, end) -> None:
    """The last rank ends in the third backward pass, while the others wait for its gradients."""
    blocks = model()
    network = nn.parallel.DistributedDataParallel(blocks, bucket_cap_mb=0.02)
    optimizer = torch.optim.AdamW(network.parameters())
    for step in range(5):
        loss = network(torch.randn(24, 32)).square().mean()
        if step == 2 and RANK == RANKS - 1:
            blocks[1].up.weight.register_hook(lambda _: end())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        see(loss)


def killed(see) -> None:
    broken(see, lambda: os.kill(os.getpid(), signal.SIGKILL))


def out_of_memory(see) -> None:
    """Asks for more than any machine has: PyTorch's own allocator fails, too."""
    broken(see, lambda: torch.empty(1 << 60, dtype=torch.uint8))


def sharded(see, rows: int = 24, width: int = 32, **options) -> None:
    network = model(width)
    for block in network:
        fully_shard(block, **options)
    train(fully_shard(network, **options), see, rows, width)


def large(see) -> None:
    sharded(see, 4096, 128)


def mixed(see) -> None:
    sharded(see, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                                reduce_dtype=torch.float32))


def parallel(see, rows: int = 24, width: int = 32) -> None:
    """Matrices that are split over the processes, as DTensors."""
    network = model(width)
    for block in network:
        parallelize_module(block, init_device_mesh("cpu", (RANKS,)),
                           {"up": ColwiseParallel(), "down": RowwiseParallel()})
    train(network, see, rows, width)


def large_parallel(see) -> None:
    parallel(see, 4096, 128)


def scattered(see) -> None:
    """Each takes 6 MB. The work of this one has no future, and never says that it is completed."""
    for _ in range(5):
        given, result = torch.ones(RANKS * 500_000), torch.empty(500_000)
        distributed.reduce_scatter_tensor(result, given)
        see(result[:100])


def forked(see) -> None:
    """A process forks while a collective that it has started waits for another one."""
    value, other = torch.randn(500).sin(), torch.randn(500).cos()
    if RANK == RANKS - 1:
        distributed.distributed_c10d._get_default_store().wait(["forked"])
    work = distributed.all_reduce(value, async_op=True)
    if RANK == 0:
        child = os.fork()
        if not child:
            os._exit(0 if other.exp().isfinite().all() else 1)
        assert os.waitpid(child, 0)[1] == 0
        distributed.distributed_c10d._get_default_store().set("forked", "")
    work.wait()
    see(value, value.exp(), other)


def collectives(see) -> None:
    """One process comes later than the other, which works on before it waits."""
    for name in ("one", "several", "functional", "gathered"):
        if RANK == 1:
            see(sum(torch.randn(400).sin() for _ in range(200)))
        value = torch.randn(500).sin()
        if name == "one":
            results, work = [value], distributed.all_reduce(value, async_op=True)
        elif name == "several":
            results = [value, value.cos()]
            work = distributed.all_reduce_coalesced(results, async_op=True)
        elif name == "functional":
            results, work = [torch.ops._c10d_functional.all_reduce(value, "sum", "0")], None
        else:
            results = [torch.empty(1000)]
            work = distributed.all_gather_into_tensor(results[0], value.cos(), async_op=True)
        see(sum(torch.randn(400).sin() for _ in range(20)))
        work.wait() if work else torch.ops._c10d_functional.wait_tensor(results[0])
        see(*results, *(each.exp() for each in results))


def unwrapped(see) -> None:
    """The backend of a group is asked itself, by no operator."""
    backend = distributed.group.WORLD._get_backend(torch.device("cpu"))
    for _ in range(3):
        value = torch.randn(300).sin()
        before, parts = value.cos(), [value.new_empty(300) for _ in range(RANKS)]
        backend.allreduce([value]).wait()
        backend.allgather([parts], [value.exp()]).wait()
        see(value, value.exp(), before, *parts)
    kind = type("Own", (distributed.distributed_c10d.Backend,), {})
    try:
        kind(0, 1).allreduce([torch.ones(1)])
    except (RuntimeError, TypeError) as error:
        see(torch.tensor([ord(letter) for letter in str(error)[:40]]))


PARTS = {part.__name__: part for part in (
    replicated, sharded, mixed, parallel, collectives, forked, unwrapped, large, large_parallel,
    lasting, scattered, killed, out_of_memory)}


def digest(part) -> str:
    made = hashlib.sha256()

    def see(*tensors) -> None:
        for tensor in map(local, tensors):
            made.update(bytes(tensor.clone().flatten().view(torch.uint8).tolist()))

    torch.manual_seed(1 + RANK)
    part(see)
    return made.hexdigest()


def main() -> None:
    torch.set_num_threads(1)
    store = distributed.FileStore(sys.argv[1], RANKS)
    distributed.init_process_group("gloo", store=store, world_size=RANKS, rank=RANK)
    for name in sys.argv[2:]:
        try:
            os.write(1, f"{name} {RANK} {digest(PARTS[name])}\n".encode())
        except RuntimeError as error:
            os.write(2, f"rank {RANK}: {type(error).__name__}: {error}\n".encode())
            os.write(1, f"{name} {RANK} failed\n".encode())
            os._exit(1)
    distributed.destroy_process_group()
    if "RANKS_STATISTICS" in os.environ:
        import tidepool

        memory = tidepool.stats()["devices"]["cpu"]
        Path(os.environ["RANKS_STATISTICS"], str(RANK)).write_text(json.dumps(memory))
    statuses = [os.wait()[1] for _ in range(RANKS - 1)] if RANK == 0 else []
    # PyTorch may abort while Python ends, after a backward of several threads.
    os._exit(max(map(os.waitstatus_to_exitcode, statuses), key=abs, default=0))


if __name__ == "__main__":
    main()
