"""The address of a storage's `c10::StorageImpl`, by which the plugin knows it."""

from __future__ import annotations

import contextlib


def address_of(storage) -> int:
    """Return the address of an UntypedStorage's `StorageImpl`, or 0 where we have no business."""
    return storage._cdata if storage.device.type in ("cpu", "cuda") else 0


def storage_finder(torch):
    """Return a function that gives the address of a tensor's `StorageImpl`, or 0.

    What it asks a tensor neither a subclass nor a mode of the job's sees.
    """
    plain = (torch.Tensor, torch.nn.Parameter)
    has_storage, address = torch._C._has_storage, torch._C._storage_address
    unseen, modes = torch._C.DisableTorchFunction, torch._C._len_torch_function_stack
    untyped_storage = torch.Tensor.untyped_storage

    def storage_of(tensor) -> int:
        if type(tensor) not in plain:
            if not isinstance(tensor, torch.Tensor):
                return 0
            # Subclasses may claim a device that their storage is not on (FakeTensor).
            with unseen(), contextlib.suppress(RuntimeError, NotImplementedError):
                return address_of(untyped_storage(tensor))
            return 0  # no storage: wrappers, sparse
        if modes():
            with unseen():
                return storage_of_plain(tensor)
        return storage_of_plain(tensor)

    def storage_of_plain(tensor) -> int:
        if not has_storage(tensor) or not (tensor.is_cpu or tensor.is_cuda):
            return 0
        try:
            return address(tensor)
        except RuntimeError:  # functorch's wrappers claim to have one
            return 0

    return storage_of
