"""Batches from a DataLoader's workers and from NumPy: what is computed from them can be evicted."""

import sys

import harness
import pytest

JOB = """
import sys
import numpy as np
import torch
import torch.nn.functional as F

source = sys.argv[1]
torch.set_num_threads(1)
torch.manual_seed(0)
BATCH, SIDE, STEPS = 8, 64, 3


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, at):
        return torch.randn(3, SIDE, SIDE, generator=torch.Generator().manual_seed(at)), at % 5


def batches():
    if source == "workers":
        yield from torch.utils.data.DataLoader(Images(), BATCH, num_workers=1)
        return
    buffer = np.empty((BATCH, 3, SIDE, SIDE), dtype=np.float32)
    for step in range(STEPS):
        images, labels = zip(*(Images()[step * BATCH + k] for k in range(BATCH)))
        images = torch.stack(images)
        if source == "numpy":
            buffer[:] = images.numpy()  # the same memory again and again
            images = torch.from_numpy(buffer)
        yield images, torch.tensor(labels)


width = 32
layers = [torch.nn.Conv2d(3, width, 3, padding=1), torch.nn.Tanh()]
for _ in range(3):
    layers += [torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.Tanh()]
model = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                            torch.nn.Linear(width, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = []
for images, labels in batches():
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print([loss.hex() for loss in losses], [p.double().sum().item().hex() for p in model.parameters()])
"""
BUDGET = "24MiB"  # of 30 MiB without pressure; too little if the first layer stays
MIB = 2**20


def run_job(source: str, front: list[str]) -> str:
    done = harness.run([*front, sys.executable, "-c", JOB, source])
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[0]


@pytest.fixture(scope="module")
def tensors() -> str:
    """What the job prints whose batches are tensors from the start."""
    return run_job("tensors", [])


@pytest.mark.parametrize("source", ["numpy", "workers"])
def test_the_first_layer_can_be_evicted(source, tensors, tmp_path):
    plain = run_job(source, [])
    assert plain == tensors
    out = tmp_path / "stats.json"
    assert run_job(source, harness.attached(BUDGET, stats=out)) == plain
    stats = harness.read_stats(out)
    assert stats["evictions"] > 0
    assert stats["foreign_copies"] >= 3 and stats["foreign_copy_uses"] >= stats["foreign_copies"]
    assert stats["foreign_changed"] == 0
    # The labels and one image batch at most: results of the first layer are not among the roots.
    assert stats["root_bytes"]["unstable_input"] < MIB
