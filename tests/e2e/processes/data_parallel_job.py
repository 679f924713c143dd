"""Trains one model on two processes with DistributedDataParallel; rank 0 prints what came out.

    python data_parallel_job.py RENDEZVOUS [--bucket-views]
"""

import os
import sys

RANK = 0 if os.fork() else 1  # before PyTorch has any threads
os.environ["GLOO_SOCKET_IFNAME"] = "lo"

import torch  # noqa: E402
import torch.distributed as distributed  # noqa: E402
from torch import nn  # noqa: E402

STEPS = 3


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    store = distributed.FileStore(sys.argv[1], 2)
    distributed.init_process_group("gloo", store=store, world_size=2, rank=RANK)
    layers = [nn.Linear(64, 64), nn.Tanh(), nn.Dropout(0.1)]
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(*layers, nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 8)),
        bucket_cap_mb=0.02, gradient_as_bucket_view="--bucket-views" in sys.argv)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(1 + RANK)
    for step in range(STEPS):
        with model.no_sync() if step == 1 else torch.enable_grad():
            loss = model(torch.randn(32, 64)).square().mean()
            loss.backward()
        if RANK == 0:
            print(f"loss {loss.item():.9g}")
            for parameter in model.parameters():
                print(f"{parameter.grad.double().sum().item():.17g}")
        if step != 1:  # the next step accumulates into these gradients
            optimizer.step()
            optimizer.zero_grad()
    if RANK == 0:
        for parameter in model.parameters():
            print(f"{parameter.double().sum().item():.17g}")
    distributed.destroy_process_group()
    sys.stdout.flush()
    # PyTorch may abort while Python ends, after a backward of several threads.
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]) if RANK == 0 else 0)


if __name__ == "__main__":
    main()
