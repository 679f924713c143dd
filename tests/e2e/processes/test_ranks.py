"""Jobs of several processes compute, and end, as without Tidepool, and keep their budgets."""

import json
import subprocess
import sys

import harness
import pytest
from selection import FULL

JOB = str(harness.HERE / "processes/ranks_job.py")
BUDGET = 64 * 2**20
PARTS = ["replicated", "sharded", "mixed", "parallel", "collectives", "forked", "unwrapped"]
LARGE = ["large", "large_parallel", "lasting", "scattered"]


def start(tmp_path, name: str, front: list[str], parts: list[str],
          **environ: str) -> subprocess.CompletedProcess[str]:
    """Run parts of the job to its end, which is that of its last rank."""
    command = [*front, sys.executable, JOB, str(tmp_path / f"rendezvous_{name}"), *parts]
    return harness.run(command, **environ)


def run(tmp_path, name: str, front: list[str], parts: list[str], **environ: str) -> list[str]:
    """Run parts of the job; return their digests, sorted."""
    done = start(tmp_path, name, front, parts, **environ)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert len(lines) == int(environ.get("RANKS", "2")) * len(parts)
    return lines


def statistics(folder, ranks: int = 2) -> list[dict]:
    """Return what each rank has written there."""
    assert len(list(folder.iterdir())) == ranks
    return [json.loads((folder / str(rank)).read_text()) for rank in range(ranks)]


def without(lines: list[str], *parts: str) -> list[str]:
    """Return the digests of other parts."""
    return [line for line in lines if line.split()[0] not in parts]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What comes out without Tidepool."""
    return run(tmp_path_factory.mktemp("plain"), "plain", [], [*PARTS, *LARGE])


@pytest.mark.parametrize("chaos", [
    "op", *(["alloc", "offload:3", "random:1", "random:2", "bounded:3"] if FULL else [])])
def test_collectives_and_sharding_under_chaos(tmp_path, plain, chaos):
    """With a second tier contents without lineage leave, too."""
    front = harness.attached(harness.AMPLE, f"--chaos={chaos}",
                             "--offload", f"file:{tmp_path}:1GiB")
    assert run(tmp_path, "chaos", front, PARTS) == without(plain, *LARGE)


def test_collectives_that_pytorch_checks(tmp_path, plain):
    """Its checks send tensors of their own, which no operator has made.

    Each is waited for: of what runs at once, as in DDP, these checks crash in plain PyTorch, too.
    """
    front = harness.attached(harness.AMPLE, "--chaos=op", "--offload", f"file:{tmp_path}:1GiB")
    lines = run(tmp_path, "checked", front, ["collectives"], TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert lines == only(plain, "collectives")


def only(lines: list[str], part: str) -> list[str]:
    """Return the digests of one part."""
    return [line for line in lines if line.split()[0] == part]


@pytest.mark.parametrize("part, budget", [
    ("large", BUDGET),  # a step takes 104 MiB with ample memory
    ("large_parallel", 28 * 2**20),  # 69 MiB
])
def test_activations_are_evicted_although_collectives_work_on_them(tmp_path, plain, part, budget):
    out = tmp_path / "statistics"
    out.mkdir()
    tight = run(tmp_path, "tight", harness.attached(budget), [part], RANKS_STATISTICS=str(out))
    assert tight == only(plain, part)
    for each in statistics(out):
        assert each["evictions"] > 0 and each["reserved_peak_bytes"] <= budget


def test_what_collectives_have_worked_on_is_not_held(tmp_path, plain):
    """Together they take 30 MB."""
    front = harness.attached(16 * 2**20)
    assert run(tmp_path, "tight", front, ["scattered"]) == only(plain, "scattered")


def test_what_lasts_leaves_under_data_parallel(tmp_path, plain):
    """It takes 42 MiB; without AdamW's moments, 25."""
    out, budget = tmp_path / "statistics", 22 * 2**20
    out.mkdir()
    front = harness.attached(budget, "--offload", f"file:{tmp_path}:1GiB")
    assert run(tmp_path, "tight", front, ["lasting"], RANKS_STATISTICS=str(out)) == only(
        plain, "lasting")
    for each in statistics(out):
        assert each["offloads"] > 0 and each["reserved_peak_bytes"] <= budget


@pytest.mark.parametrize("ranks, steps", [(4, 3), *([(2, 200), (4, 200)] if FULL else [])])
@pytest.mark.long
def test_many_steps_of_random_evictions(tmp_path, ranks, steps):
    parts, out = ["replicated", "sharded", "parallel"], tmp_path / "statistics"
    out.mkdir()
    environ = {"RANKS": str(ranks), "RANKS_STEPS": str(steps)}
    expected = run(tmp_path, "plain", [], parts, **environ)
    front = harness.attached(BUDGET, "--chaos=random:1")
    got = run(tmp_path, "random", front, parts, **environ, RANKS_STATISTICS=str(out))
    assert got == expected
    for each in statistics(out, ranks):
        assert each["evictions"] > 0 and each["reserved_peak_bytes"] <= BUDGET


@pytest.mark.parametrize("ranks", [2, *([4] if FULL else [])])
@pytest.mark.parametrize("part", ["killed", "out_of_memory"])
def test_a_rank_that_ends_ends_the_job(tmp_path, part, ranks):
    """The last rank ends in a backward pass; the others fail as they wait, and none hangs."""
    ended = [start(tmp_path, name, front, [part], RANKS=str(ranks)) for name, front in (
        ("plain", []), ("random", harness.attached(BUDGET, "--chaos=random:1")))]
    survivors = ranks - 1 if part == "killed" else ranks
    for done in ended:
        assert done.returncode == 1, done.stderr
        assert sorted(done.stdout.splitlines()) == [
            f"{part} {rank} failed" for rank in range(survivors)]
    said = f"rank {ranks - 1}: OutOfMemoryError: out of memory: 1.00 EiB"
    assert (said in ended[1].stderr) == (part == "out_of_memory")


MESSAGES_JOB = """
import os
import torch
import torch.distributed.rpc as rpc
from torch.distributed import autograd
rank = 1 if os.fork() == 0 else 0
os.environ["TP_SOCKET_IFNAME"] = "lo"
def twice(tensor):
    return torch.sin(tensor) * 2
said = []
def note(tensor):
    said.append(tensor.double().sum().item())
torch.manual_seed(rank)
made = [torch.randn(200_000).cos() for _ in range(6)]
rpc.init_rpc(f"rank{rank}", rank=rank, world_size=2, rpc_backend_options=(
    rpc.TensorPipeRpcBackendOptions(init_method="file://" + os.environ["MEETING"])))
if rank == 0:
    for tensor in made:
        note(rpc.rpc_sync("rank1", torch.sum, (tensor,)))
        note(rpc.rpc_sync("rank1", twice, (torch.cos(tensor),)))
    with autograd.context() as number:
        leaf = torch.randn(200_000, requires_grad=True)
        autograd.backward(number, [rpc.rpc_sync("rank1", twice, (leaf * 3,)).sum()])
        note(autograd.get_gradients(number)[leaf])
rpc.shutdown()
for tensor in made:
    note(torch.sin(tensor))
print(rank, said, flush=True)
if rank == 0:
    os.wait()
"""


@pytest.mark.torch_floor
def test_messages_carry_what_is_evicted_otherwise(tmp_path):
    """An agent reads tensors by address when it likes."""
    said = []
    for name, front in (("plain", []), ("ours", harness.attached(harness.AMPLE, "--chaos=op"))):
        done = harness.run([*front, sys.executable, "-c", MESSAGES_JOB],
                           MEETING=str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        said.append(sorted(done.stdout.splitlines()))
    assert len(said[0]) == 2
    assert said[0] == said[1]
