"""Give Triton's kernels values on the stand-in CUDA device: hashes of all that they read.

In a job, after `import value_kernels` and `import torch`: `triton_kernels.install()`. What
torch.compile generates for CUDA is then launched as its launcher does it, by the addresses of its
arguments and unseen by PyTorch's dispatcher, but runs no kernel: it writes values that follow from
the kernel's name and numbers and from the elements of what it reads, as value kernels do. Which
arguments it reads and writes is what its text loads and stores. Nothing is compiled, so that Triton
needs no driver.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
from typing import ClassVar

import torch
import triton
from tensor_bytes import bytes_of
from torch._inductor.async_compile import AsyncCompile
from triton.backends.compiler import GPUTarget

_INTERCEPTION = "CustomRNGKeyId"  # the key that operators are intercepted on


class _Driver:
    """What the compiler asks Triton's driver for."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)


class Kernel:
    """A kernel in Triton's language, by its name and text."""

    launched: ClassVar[list[str]] = []  # of all kernels, the names

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._parameters = next([each.arg for each in node.args.args]
                                for node in ast.walk(ast.parse(text))
                                if isinstance(node, ast.FunctionDef) and node.name == name)
        self._reads = set(re.findall(r"tl\.load\((\w+)", text))
        self._writes = set(re.findall(r"tl\.(?:store|atomic_\w+)\((\w+)", text))

    def run(self, *arguments, stream) -> None:
        """Launch it."""
        addresses = [each.data_ptr() for each in arguments if isinstance(each, torch.Tensor)]
        assert all(address % 16 == 0 for address in addresses), "not aligned"
        named = list(zip(self._parameters, arguments, strict=False))
        Kernel.launched.append(self._name)
        with _unseen(), torch.no_grad():
            digest = hashlib.sha256(self._name.encode())
            for name, value in named:
                if not isinstance(value, torch.Tensor):
                    digest.update(f"{name}={value}".encode())
                elif name in self._reads:
                    digest.update(bytes_of(value))
            for name, value in named:
                if isinstance(value, torch.Tensor) and name in self._writes:
                    _fill(value, digest.digest() + name.encode())


def install() -> None:
    """Launch kernels of torch.compile's as above, for good."""
    triton.runtime.driver.set_active(_Driver())
    AsyncCompile.triton = lambda self, name, text, device_str="cuda": Kernel(name, text)


@contextlib.contextmanager
def _unseen():
    """Intercept no operators of this thread: no dispatcher sees a launch."""
    before = torch._C._dispatch_tls_is_dispatch_key_excluded(_INTERCEPTION)
    torch._C._dispatch_tls_set_dispatch_key_excluded(_INTERCEPTION, True)
    try:
        yield
    finally:
        torch._C._dispatch_tls_set_dispatch_key_excluded(_INTERCEPTION, before)


def _fill(tensor: torch.Tensor, seed: bytes) -> None:
    drawn = hashlib.shake_256(seed).digest(tensor.numel())
    numbers = torch.frombuffer(bytearray(drawn), dtype=torch.uint8).view(tensor.shape)
    if tensor.dtype.is_floating_point:
        numbers = numbers / 128 - 1
    elif tensor.dtype is torch.bool:
        numbers = numbers > 127
    else:
        numbers = numbers % 128
    tensor.detach().copy_(numbers.to(tensor.dtype))
