"""Jobs of several processes: what their C++ reads by address stays while it does.

The reducer of DistributedDataParallel makes small tensors, writes and reads them by address, and
spreads them over the processes, when a model is wrapped and when buckets are formed anew. All else
that it does with parameters, gradients and buckets it does by operators; that it compares storages
is answered without their bytes.

Collectives come through the dispatcher, which shows them (docs/supported.md), but for
those of a job that calls a process group's backend itself: what it is given stays for good.

DataParallel and `torch.cuda.nccl` copy and add between the devices of one process by addresses:
what is given to them, and what they make, stays as it does for extension modules.

`torch.distributed.rpc` reads the tensors of a message by address, on threads of its own, until the
message is sent, and gradients of distributed autograd are sent by C++ alone: nothing is evicted as
long as its agent runs.
"""

from __future__ import annotations

import contextlib
import functools

from ._callers import give_own_code, hide_from_compiler
from ._extensions import handing_out, is_given_tensors


def follow_data_parallel(plugin, torch) -> None:
    """Have this work run in regions from now on."""
    if not torch.distributed.is_available():
        return
    in_region(plugin, torch.nn.parallel.DistributedDataParallel, "_ddp_init_helper")
    hide_from_compiler(
        torch, in_region(plugin, torch.distributed, "_verify_params_across_processes"),
        in_region(plugin, torch.distributed.Reducer, "_rebuild_buckets"))


def follow_backends(plugin, torch, storage_of) -> None:
    """Have tensors stay from now on that are given to a process group's backend, or its windows."""
    if not torch.distributed.is_available():
        return
    processes = torch._C._distributed_c10d
    kinds = [processes.Backend]
    if hasattr(processes, "Window"):
        kinds.append(processes.Window)
    leaves = torch.utils._pytree.tree_leaves

    def escaping(original):
        @functools.wraps(original)
        def call(self, *args, **kwargs):
            for each in leaves((args, kwargs)):
                if storage := storage_of(each):
                    plugin.escape(storage)
            return original(self, *args, **kwargs)

        # In a class of the job's own that lacks the method, pybind11 finds this one, and takes it
        # for the one that overrides its own, unless a frame of that name is what calls.
        give_own_code(call, co_name=original.__name__)
        hide_from_compiler(torch, call)
        return call

    for kind in kinds:
        for name, method in tuple(vars(kind).items()):
            if is_given_tensors(method):
                setattr(kind, name, escaping(getattr(kind, name)))
    if original := getattr(processes, "_hash_tensors", None):  # debug modes compare by it
        processes._hash_tensors = handing_out(original, plugin, torch, storage_of, keeps=False)
        hide_from_compiler(torch, processes._hash_tensors)


def follow_devices_of_one_process(plugin, torch, storage_of) -> None:
    """Have functions keep what they are given that call NCCL for the devices of this process."""
    for name in dir(torch._C):
        if name.startswith(("_nccl_", "_broadcast")):
            call = handing_out(getattr(torch._C, name), plugin, torch, storage_of, keeps=False)
            hide_from_compiler(torch, call)
            setattr(torch._C, name, call)


def follow_messages(plugin, torch) -> None:
    """Have nothing evicted from now on while an agent of `torch.distributed.rpc` runs."""
    if not torch.distributed.is_available() or not torch.distributed.rpc.is_available():
        return
    api, kept = torch.distributed.rpc.api, contextlib.ExitStack()
    start, stop = api._set_and_start_rpc_agent, api._reset_current_rpc_agent

    @functools.wraps(start)
    def started(agent):
        with contextlib.ExitStack() as keeping:
            keeping.enter_context(plugin.keeping())
            start(agent)
            kept.push(keeping.pop_all())

    @functools.wraps(stop)
    def stopped():
        with kept.pop_all():
            stop()

    api._set_and_start_rpc_agent, api._reset_current_rpc_agent = started, stopped


def in_region(plugin, owner, name: str):
    """Have a function run in a region, in which what operators read and make stays.

    Returns what stands in its place.
    """
    original = getattr(owner, name)

    @functools.wraps(original)
    def held(*args, **kwargs):
        with plugin.region():
            return original(*args, **kwargs)

    give_own_code(held)
    setattr(owner, name, held)
    return held
