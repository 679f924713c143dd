"""Train a deep perceptron whose activations need several times the memory of its parameters.

Usage: watch_job.py STEPS

Prints {"loss": text}.
"""

import json
import sys

import torch
from torch import nn

LAYERS, WIDTH, BATCH = 24, 128, 2048  # an activation takes 1 MiB, a layer's backward three


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [m for _ in range(LAYERS) for m in (nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout())]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(int(sys.argv[1])):
        optimizer.zero_grad()
        loss = model(torch.randn(BATCH, WIDTH)).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(json.dumps({"loss": f"{loss.item():.17g}"}))


if __name__ == "__main__":
    main()
