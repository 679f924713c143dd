"""A training step whose optimizer works on lists, which need more room than the budget has.

Usage: python list_job.py
Prints a digest of the parameters, and which names the operators on lists had.
"""

import hashlib

import torch

LAYERS = 12
WIDTH = 256  # a layer's weight takes 256 KiB
STEPS = 3

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
for _ in range(STEPS):
    optimizer.zero_grad()
    model(torch.randn(4, WIDTH)).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=True)
    optimizer.step()
digest = hashlib.sha256()
for parameter in model.parameters():
    digest.update(parameter.detach().numpy().tobytes())
print(digest.hexdigest()[:16])
