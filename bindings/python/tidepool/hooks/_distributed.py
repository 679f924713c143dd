"""DistributedDataParallel: what its C++ reads by address stays while it does.

Its reducer makes small tensors, writes and reads them by address, and spreads them over the
processes, when a model is wrapped and when buckets are formed anew. All else that it does with
parameters, gradients and buckets it does by operators; that it compares storages is answered
without their bytes.
"""

from __future__ import annotations

import functools


def follow_data_parallel(plugin, torch) -> None:
    """Have this work run in regions from now on."""
    if not torch.distributed.is_available():
        return
    in_region(plugin, torch.nn.parallel.DistributedDataParallel, "_ddp_init_helper")
    in_region(plugin, torch.distributed, "_verify_params_across_processes")
    in_region(plugin, torch.distributed.Reducer, "_rebuild_buckets")


def in_region(plugin, owner, name: str) -> None:
    """Have a function run in a region, in which what operators read and make stays."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def held(*args, **kwargs):
        with plugin.region():
            return original(*args, **kwargs)

    setattr(owner, name, held)
