"""DistributedDataParallel: gradients stay where they are from the moment they are accumulated.

Its reducer, C++ below Python, compares the storages of gradients and buckets by their pointers, and
PyTorch refuses the pointer of an evicted storage with an error. The hook runs after a gradient is
accumulated and before the reducer's own, which sees it next. Of parameters and buffers it asks for
pointers, too; where these could leave, they stay from the model's construction on.
"""

from __future__ import annotations

import functools


def follow_data_parallel(plugin, torch, storage_of, *, offloads: bool = False) -> None:
    """Fix the gradients of every model that is wrapped from now on.

    Args:
        offloads: contents without lineage may leave, too.
    """
    wrapper = torch.nn.parallel.DistributedDataParallel
    original = wrapper._ddp_init_helper  # ends each way to construct one, unpickling too

    def fix_gradient(parameter) -> None:
        storage = storage_of(parameter.grad) if parameter.grad is not None else 0
        if storage:
            plugin.written(storage)

    @functools.wraps(original)
    def init_helper(self, parameters, *args, **kwargs):
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(fix_gradient)
        return original(self, parameters, *args, **kwargs)

    wrapper._ddp_init_helper = init_helper
    if not offloads:
        return
    construct = wrapper.__init__

    @functools.wraps(construct)
    def fixing(self, module, *args, **kwargs):
        for tensor in (*module.parameters(), *module.buffers()):
            storage = storage_of(tensor)
            if storage:
                plugin.written(storage)
        with plugin.region():  # its C++ reads what its operators make
            construct(self, module, *args, **kwargs)

    wrapper.__init__ = fixing
    reducer = torch.distributed.Reducer
    rebuild = reducer._rebuild_buckets

    def rebuild_buckets(self):
        with plugin.region():
            return rebuild(self)

    reducer._rebuild_buckets = rebuild_buckets
