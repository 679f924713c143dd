"""Train a small network for some steps, as jobs do: recorded_job.py NETWORK SIZE STEPS."""

import gc
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from networks import NETWORKS

network, size, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.manual_seed(0)
torch.set_num_threads(1)
gc.disable()  # so that every run frees what it frees at the same places
model = NETWORKS[network].build(size)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.Generator().manual_seed(1)
for step in range(steps):
    loss = model(*model.batch(step, data))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
