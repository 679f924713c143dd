"""What comes to the stand-in CUDA device from the host, or from a file, or is a copy of a storage.

    python arrival_jobs.py WAY

One line of JSON on standard output says whether the tensors on the device had the expected values
when all of them had arrived, and how many times something was offloaded. They have 16 MiB.
"""

import copy
import json
import sys
import tempfile
from pathlib import Path

import tidepool
import torch

COUNT, SIDE = 16, 512  # so many tensors of a MiB each


def made() -> list[torch.Tensor]:
    return [torch.full((SIDE, SIDE), float(k)) for k in range(COUNT)]


def moved() -> list[torch.Tensor]:
    module = torch.nn.ParameterList(made())
    return [each.detach() for each in module.cuda()]


def given() -> list[torch.Tensor]:
    return [torch.tensor(each.tolist(), device="cuda") for each in made()]


def loaded() -> list[torch.Tensor]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        torch.save(made(), path)
        return torch.load(path, map_location="cuda")


def copied() -> list[torch.Tensor]:
    return [copy.deepcopy(each.cuda()) for each in made()]


def filled() -> list[torch.Tensor]:
    tensors = []
    for each in made():
        tensors.append(torch.empty(SIDE, SIDE, device="cuda"))
        tensors[-1].untyped_storage().copy_(each.untyped_storage())
    return tensors


WAYS = {way.__name__: way for way in (moved, given, loaded, copied, filled)}


def main() -> None:
    tensors = WAYS[sys.argv[1]]()
    same = [torch.equal(found.cpu(), each) for found, each in zip(tensors, made(), strict=True)]
    counts = tidepool.stats()["devices"]["cuda:0"]
    print(json.dumps({"same": all(same), "offloads": counts["offloads"]}))


if __name__ == "__main__":
    main()
