"""The script of the tutorial: trains a deep stack of layers on random numbers."""

import torch
from torch import nn

torch.manual_seed(0)
layers = [layer for _ in range(24) for layer in (nn.Linear(128, 128), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(1, 4):
    inputs, labels = torch.randn(1024, 128), torch.randint(10, (1024,))
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.6f}")
