"""Allocates a little on the CUDA device, and says what the allocator says.

    python small_job.py [--set SETTINGS | --idle | --outside MIB | --too-much MIB]

--set puts PyTorch's allocator settings into the environment after `import torch`; --idle uses no
device at all; --outside takes memory from the device behind the allocator's back; --too-much asks
the allocator for so much, and says what it answers.
"""

import ctypes
import os
import sys

import torch

if sys.argv[1:2] == ["--set"]:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = sys.argv[2]
if sys.argv[1:] != ["--idle"]:
    tensor = torch.zeros(1000, device="cuda")
    settings = torch.cuda.memory._snapshot()["allocator_settings"]
    print(torch.cuda.memory_allocated(), settings["max_split_size"])
if sys.argv[1:2] == ["--outside"]:
    address = ctypes.c_void_p()
    ctypes.CDLL("libcudart.so.13").cudaMalloc(ctypes.byref(address), int(sys.argv[2]) << 20)
if sys.argv[1:2] == ["--too-much"]:
    try:
        torch.empty(int(sys.argv[2]) << 20, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        print(error)
print("ran", os.environ.get("PYTORCH_CUDA_ALLOC_CONF"))
