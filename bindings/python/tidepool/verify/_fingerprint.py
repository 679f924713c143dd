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
from collections.abc import Iterator, Sequence

from ..job import _inner_tensors

PIECE_BYTES = 4 << 20  # large enough that the copies' fixed cost does not count
DIGEST_BYTES = 8
LARGEST_ELEMENT = 8  # complex numbers are read as pairs
_UNREADABLE = "unreadable"


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
        return self.together([tensor])[0]

    def together(self, tensors: Sequence) -> list[str]:
        """Return the fingerprints of tensors as one operator that reads all of them finds them.

        They are restored together, which can go wrong where restoring one after the other does not.
        (Of large ones that holds for the first piece.) Raises like `of`.
        """
        try:
            with self._lock, self._undisturbed():
                return self._digests(tensors)
        except Exception as error:
            if len(tensors) > 1:
                return [self.of(tensor) for tensor in tensors]
            if isinstance(error, self._torch.OutOfMemoryError):
                raise
            # An exotic subclass, or contents that are lost: the job must not notice.
            return [f"{_UNREADABLE} ({type(tensors[0]).__name__}: {type(error).__name__})"]

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
        elif parts := _inner_tensors.of_sparse(torch, tensor):
            yield from parts
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

    def _digests(self, tensors: Sequence) -> list[str]:
        parts = [[_Part(part, self._as_integers(part)) for part in self._parts(tensor)]
                 for tensor in tensors]
        self._read([part for of_one in parts for part in of_one])
        digests = []
        for tensor, of_one in zip(tensors, parts, strict=True):
            digest = _new_digest(describe(tensor))
            for part in of_one:
                digest.update(part.digest.digest())
            digests.append(digest.hexdigest())
        return digests

    def _read(self, parts: list[_Part]) -> None:
        """Feed the digests of parts: in each round a piece of each that is not finished."""
        while parts:
            room = PIECE_BYTES // len(parts) // LARGEST_ELEMENT * LARGEST_ELEMENT
            room = max(room, LARGEST_ELEMENT)
            pieces = []
            for part in parts[:PIECE_BYTES // room]:
                piece = part.next_piece(room)
                if piece is not None:
                    pieces.append((part, piece))
            self._copy([piece for _, piece in pieces], room)
            for place, (part, piece) in enumerate(pieces):
                size = piece.numel() * piece.element_size()
                part.digest.update(memoryview(self._buffer)[place * room:place * room + size])
            parts = [part for part in parts if part.pending]

    def _copy(self, pieces: list, room: int) -> None:
        """Copy pieces into the buffer, each at a multiple of `room`, by a single operator."""
        targets = [self._staging[place * room:place * room + piece.numel() * piece.element_size()]
                   .view(piece.dtype).view(piece.shape) for place, piece in enumerate(pieces)]
        if len(pieces) == 1:
            targets[0].copy_(pieces[0])
        elif pieces:
            self._torch._foreach_copy_(targets, pieces)


class _Part:
    """A plain dense tensor that is read piece by piece, in the logical order of its elements."""

    def __init__(self, part, integers) -> None:
        self.digest = _new_digest(f"{part.dtype} {tuple(part.shape)};")
        self.pending = [integers]

    def next_piece(self, room: int):
        """Return a view of the next elements, at most `room` bytes, or None at the end."""
        while self.pending:
            part = self.pending.pop()
            most = room // part.element_size()
            if part.numel() == 0:
                continue
            if part.numel() <= most:
                return part
            if part.is_contiguous():
                flat = part.view(-1)
                self.pending.append(flat[most:])
                return flat[:most]
            if len(part) == 1:
                self.pending.append(part[0])
            else:
                rows = max(1, most * len(part) // part.numel())
                self.pending += reversed(part.split(rows))
        return None


def _new_digest(text: str):
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES)


def is_unreadable(fingerprint: str | None) -> bool:
    """Tell whether a fingerprint says why there is none."""
    return fingerprint is not None and fingerprint.startswith(_UNREADABLE)


def describe(tensor) -> str:
    """Return shape and dtype of a tensor for a reader, such as "2x3 float32"."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested:  # it has no shape, or one with a symbol that is new each time
        return f"nested {dtype}"
    return f"{'x'.join(map(str, tensor.shape)) or 'scalar'} {dtype}"
