"""CUDA memory that goes to other processes.

They can map only what PyTorch's own allocator holds, so a storage moves there before it is shared.
"""

from __future__ import annotations

import functools


def move_before_sharing(plugin, storage_type) -> None:
    """Wrap the function that every way to share a CUDA tensor ends in."""
    original = storage_type._share_cuda_

    @functools.wraps(original)
    def share(self, *args, **kwargs):
        if self.device.type == "cuda":
            plugin.make_shareable(self._cdata)
        return original(self, *args, **kwargs)

    storage_type._share_cuda_ = share
