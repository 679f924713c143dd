"""A small training script that prints as it goes; what it prints is all it has to show.

    python small_job.py [--workers N] [--fail | --exit STATUS]
"""

import argparse
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    """Samples computed from a table, which a worker process has from its parent."""

    def __init__(self) -> None:
        self.table = torch.sin(torch.arange(64 * 256).view(64, 256) * 0.01)

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int):
        return self.table[index % 64] * (1 + index % 7), index % 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--exit", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = []
    for _ in range(6):
        layers += [nn.Linear(256, 256), nn.Tanh(), nn.Dropout(0.1)]
    model = nn.Sequential(*layers, nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = DataLoader(Samples(), batch_size=1024, num_workers=options.workers)
    for number, (inputs, labels) in enumerate(batches):
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {number}: loss {loss.item():.9g}, "
              f"weight {model[0].weight.double().sum().item():.17g}")
    print(model[0].weight[:2, :3])
    if options.fail:
        raise ValueError("the job's own error")
    sys.exit(options.exit)


if __name__ == "__main__":
    main()
