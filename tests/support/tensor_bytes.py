"""The elements of a tensor as bytes, on any device, without NumPy: PyTorch does not bring it."""

import torch


def bytes_of(tensor: torch.Tensor) -> bytearray:
    """Return a copy of a tensor's elements in logical order; no address of it leaves PyTorch."""
    if not tensor.numel():
        return bytearray()
    content = bytearray(tensor.numel() * tensor.element_size())
    elements = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    torch.frombuffer(content, dtype=torch.uint8).copy_(elements)
    return content
