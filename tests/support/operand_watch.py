"""Declare operators' operands and record_stream to the race checker of the stand-in CUDA device."""

from __future__ import annotations

import standin
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class OperandWatch(TorchDispatchMode):
    """While it is on, every operator uses the storages of its arguments and results.

    On the stream that is current on their device when the operator returns. Python's dispatch is
    per thread: operators of the backward pass, on CUDA in a thread of autograd's, are seen because
    autograd takes the mode along.
    """

    def __init__(self, device: standin.Device) -> None:
        super().__init__()
        self._device = device

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run an operator and declare what it used."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func is torch.ops.aten.record_stream.default:
            tensor, stream = args
            pointer = torch.cuda.Stream(stream_id=stream.stream_id,
                                        device_index=stream.device_index,
                                        device_type=stream.device_type).cuda_stream
            self._device.shared(tensor.untyped_storage().data_ptr(), pointer)
            return result
        if func.is_view:  # metadata only
            return result
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, torch.Tensor) and leaf.is_cuda:
                storage = leaf.untyped_storage()
                stream = torch.cuda.current_stream(leaf.device).cuda_stream
                self._device.used(storage.data_ptr(), storage.nbytes(), stream)
        return result
