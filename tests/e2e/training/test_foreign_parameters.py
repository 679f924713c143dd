"""Parameters in mapped files and NumPy's memory: what is computed from them can be evicted."""

import sys

import harness
import pytest

JOB = """
import sys
import torch

source, path = sys.argv[1:]
torch.set_num_threads(1)
torch.manual_seed(0)
WIDTH = 256
layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()) for _ in range(6)]
model = torch.nn.Sequential(*layers)
state = model.state_dict()
if source == "mapped":
    torch.save(state, path)
    state = torch.load(path, mmap=True)
elif source == "numpy":
    state = {name: torch.from_numpy(each.numpy().copy()) for name, each in state.items()}
model.load_state_dict(state, assign=True)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
losses = []
for _ in range(3):
    loss = model(torch.randn(2048, WIDTH)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print([loss.hex() for loss in losses], [p.double().sum().item().hex() for p in model.parameters()])
"""
BUDGET = "18MiB"  # of 46 MiB without pressure; too little if their results stay


@pytest.mark.parametrize("source", ["mapped", "numpy"])
def test_what_reads_foreign_parameters_can_be_evicted(source, tmp_path):
    job = [sys.executable, "-c", JOB, source, str(tmp_path / "state.pt")]
    out = tmp_path / "stats.json"
    fronts = harness.attached(BUDGET, stats=out), harness.attached("1GiB", "--chaos=op")
    harness.check_same_output(job, *([*front, *job] for front in fronts))
    stats = harness.read_stats(out)
    assert stats["evictions"] > 0
    assert stats["foreign_copies"] >= 3 * 12 and stats["foreign_changed"] == 0
