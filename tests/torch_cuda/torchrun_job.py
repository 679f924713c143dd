"""A small training under torchrun, on two devices; each rank prints a line with its contents."""

from __future__ import annotations

import json
import os

from remat_jobs import prints

import torch  # isort: skip  after the stand-in's part of remat_jobs
from torch import distributed, nn


def main() -> None:
    torch.set_num_threads(1)
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.Tanh())]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).cuda(), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    seen = []
    for _ in range(4):
        loss = model(torch.randn(4096, 64, device="cuda") * (rank + 1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.detach())
        total = loss.detach().clone()
        distributed.all_reduce(total)
        seen.append(total)
    said = json.dumps({"rank": rank, "prints": prints(*seen, *model.parameters())})
    os.write(1, f"{said}\n".encode())  # at once: the other rank prints, too
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
