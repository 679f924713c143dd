"""Multiplies batches of matrices; PyTorch has a router before that kernel: router_jobs.py [BUDGET].

With a budget the job attaches Tidepool itself, when there is a router already.
"""

import sys

from remat_jobs import evict_all, main, plugin, prints, state  # isort: skip  before torch
import torch


def products() -> dict:
    x = torch.rand(8, 64, 64, device="cuda")
    made = [x]
    for _ in range(8):
        made.append(torch.bmm(made[-1], x))
    evicted = evict_all() if plugin() else 8
    return {"states": [state(each) for each in made[1:]], "prints": prints(*made),
            "evicted": evicted}


if sys.argv[1:]:
    import tidepool
    tidepool.enable(budget=sys.argv[1], device="cuda")
main({"products": products}, [])
