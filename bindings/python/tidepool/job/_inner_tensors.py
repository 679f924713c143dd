"""The tensors that a tensor of another layout consists of."""

from __future__ import annotations

from typing import Any


def of_sparse(torch, tensor: Any) -> tuple:
    """Return the indices and the values of a sparse tensor; nothing of another one."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return ()
