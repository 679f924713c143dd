"""An extension in C++ replaces kernels of PyTorch's in the middle of a job."""

import shutil
import tempfile

import torch
from foreign_cases import MAJOR, MINOR, library_of_cases


def numbers():
    x = torch.arange(4096.0).view(64, 64).add(1).div(5000)
    return x, x.exp() * 2


def others():
    for _ in range(3):
        torch.arange(16384.0).cos().sum()


def plus_one(x):
    return torch.add(x, 1)


def case_kernels_of_a_library_that_is_loaded():
    x, y = numbers()
    own = torch.library.Library("aten", "IMPL")
    own.impl("cos", plus_one, "CPU")
    replaced = [x.cos()]
    before = [x.sin(), torch.nn.functional.linear(x, y, x[0]), torch.matmul(x, y)]
    others()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/libtorch_named_like_pytorchs.so"
        shutil.copy(library_of_cases(f"replacing_torch_{MAJOR}_{MINOR}"), path)
        torch.ops.load_library(path)
    replaced.append(x.cos())
    own._destroy()
    replaced.append(x.cos())
    found = []
    for make in (torch.sin, lambda x: torch.nn.functional.linear(x, y, x[0]),
                 lambda x: torch.matmul(x, y),
                 lambda x: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist")):
        made = make(x)
        found += [made, made * 2]
        others()
    weight = x.clone().requires_grad_()
    hidden = weight.cos()
    result = torch.nn.functional.linear(hidden, y, x[0]).sin() * hidden
    others()
    result.sum().backward()
    return replaced, before, found, weight.grad, result, result * 2
