"""Fingerprints of tensors: a hash over the bytes of their logical elements.

Bytes are compared, not values: two NaNs may differ, and -0.0 is not 0.0. Padding, strides and
storage offsets do not count; shape and dtype do.

Elements are read by PyTorch's own copy operator, piece by piece, into a small buffer of Python's:
an evicted tensor is restored as for any other reader, nothing is allocated from PyTorch's
allocators, no address leaves (`numpy()` or `data_ptr()` would keep the tensor from being evicted
again), and no random numbers are drawn. Thread safe.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator

PIECE_BYTES = 4 << 20  # large enough that the copies' fixed cost does not count
DIGEST_BYTES = 8


class Fingerprints:
    """Makes fingerprints of tensors of this process."""

    def __init__(self, torch) -> None:
        from torch.utils._python_dispatch import _disable_current_modes

        self._torch = torch
        self._without_modes = _disable_current_modes
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self._integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        self._buffer = bytearray(PIECE_BYTES)
        with self._undisturbed():
            self._staging = torch.frombuffer(self._buffer, dtype=torch.uint8)
        self._lock = threading.RLock()

    def renew_lock(self) -> None:
        """Be usable in a forked child, whatever the parent's threads were doing."""
        self._lock = threading.RLock()

    def of(self, tensor) -> str:
        """Return the fingerprint, or "unreadable (WHY)" for what has no bytes that can be read.

        Raises:
            OutOfMemoryError: an evicted tensor could not be restored.
        """
        digest = hashlib.blake2b(describe(tensor).encode(), digest_size=DIGEST_BYTES)
        try:
            with self._lock, self._undisturbed():
                for part in self._parts(tensor):
                    digest.update(f"{part.dtype} {tuple(part.shape)};".encode())
                    for piece in self._pieces(self._as_integers(part)):
                        digest.update(self._bytes_of(piece))
        except self._torch.OutOfMemoryError:
            raise
        except Exception as error:  # an exotic subclass: the job must not notice
            return f"unreadable ({type(tensor).__name__}: {type(error).__name__})"
        return digest.hexdigest()

    @contextlib.contextmanager
    def _undisturbed(self):
        """Keep autograd, subclasses and modes of the job from noticing what we run."""
        torch = self._torch
        with torch.no_grad(), torch._C.DisableTorchFunction(), self._without_modes():
            yield

    def _parts(self, tensor) -> Iterator:
        """Yield the plain dense tensors that a tensor consists of."""
        torch = self._torch
        if type(tensor) not in self._plain and hasattr(tensor, "__tensor_flatten__"):
            for name in tensor.__tensor_flatten__()[0]:
                yield from self._parts(getattr(tensor, name))
        elif tensor.is_nested:
            for part in tensor.unbind():
                yield from self._parts(part)
        elif tensor.layout is torch.sparse_coo:
            yield tensor._indices()
            yield tensor._values()
        elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
        elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
        elif tensor.layout is not torch.strided:
            yield tensor.to_dense()
        elif tensor.is_quantized:
            yield tensor.int_repr()
        elif not tensor.is_meta:
            yield tensor.detach()

    def _as_integers(self, tensor):
        """Return the same bytes as integers: copying those changes no bit, whatever the dtype."""
        if tensor.is_complex():
            tensor = self._torch.view_as_real(tensor.resolve_conj())
        return tensor.resolve_neg().view(self._integers[tensor.element_size()])

    def _pieces(self, tensor) -> Iterator:
        """Yield a tensor's elements in logical order, as views that fit into the buffer."""
        most = PIECE_BYTES // tensor.element_size()
        pending = [tensor]
        while pending:
            part = pending.pop()
            if part.numel() == 0:
                continue
            if part.numel() <= most:
                yield part
            elif part.is_contiguous():
                flat = part.view(-1)
                yield from (flat[start:start + most] for start in range(0, len(flat), most))
            elif len(part) == 1:
                pending.append(part[0])
            else:
                rows = max(1, most * len(part) // part.numel())
                pending += reversed(part.split(rows))

    def _bytes_of(self, piece) -> memoryview:
        size = piece.numel() * piece.element_size()
        self._staging[:size].view(piece.dtype).view(piece.shape).copy_(piece)
        return memoryview(self._buffer)[:size]


def describe(tensor) -> str:
    """Return shape and dtype of a tensor for a reader, such as "2x3 float32"."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested:  # it has no shape, or one with a symbol that is new each time
        return f"nested {dtype}"
    return f"{'x'.join(map(str, tensor.shape)) or 'scalar'} {dtype}"
