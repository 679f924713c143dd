"""A small training script in which one thing goes wrong, in one step.

    python planted_job.py random | replay | never

`random`: numbers that differ from run to run. `replay`, only where Tidepool is attached: what an
evicted activation is computed from changes by a pointer that nobody saw. `never`: no step is taken.
"""

import ctypes
import os
import sys

import tidepool
import torch
import torch.nn.functional as F
from torch import nn

WRONG_STEP = 2


def overwrite(tensor: torch.Tensor) -> None:
    """Set a tensor to zero, unseen: its address is read from its storage's second field."""
    address = ctypes.c_uint64.from_address(tensor.untyped_storage()._cdata + 16).value
    ctypes.memset(address, 0, tensor.numel() * tensor.element_size())


def evict(tensor: torch.Tensor) -> None:
    from tidepool.job import _job

    plugin = _job.current().plugin
    if plugin.evict(tensor.untyped_storage()._cdata) != 1:
        raise AssertionError("the planted tensor cannot be evicted")


class Net(nn.Module):
    """Keeps its activation where the script can reach it."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 4)
        self.norm = nn.BatchNorm1d(4)
        self.activation = None

    def forward(self, x):
        self.activation = torch.tanh(x)
        return self.norm(F.dropout(self.head(self.activation), 0.1))


def main() -> None:
    what = sys.argv[1]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, foreach=False)
    attached = bool(tidepool.stats()["devices"])
    for step in range(1, 4):
        inputs, labels = torch.randn(32, 16), torch.randint(4, (32,))
        loss = F.cross_entropy(net(inputs), labels)
        optimizer.zero_grad()
        if step == WRONG_STEP and what == "replay" and attached:
            evict(net.activation)
            overwrite(inputs)
        if step == WRONG_STEP and what == "random":
            with torch.no_grad():
                net.head.bias[0] = int.from_bytes(os.urandom(2), "little")
        loss.backward()
        if what != "never":
            optimizer.step()
        print("step", step)


if __name__ == "__main__":
    main()
