"""Allocates a little on the CUDA device, and says what the allocator says.

    python small_job.py [--set SETTINGS | --idle]

--set puts PyTorch's allocator settings into the environment after `import torch`; --idle uses no
device at all.
"""

import os
import sys

import torch

if sys.argv[1:2] == ["--set"]:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = sys.argv[2]
if sys.argv[1:] != ["--idle"]:
    tensor = torch.zeros(1000, device="cuda")
    settings = torch.cuda.memory._snapshot()["allocator_settings"]
    print(torch.cuda.memory_allocated(), settings["max_split_size"])
print("ran", os.environ.get("PYTORCH_CUDA_ALLOC_CONF"))
