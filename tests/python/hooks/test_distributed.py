"""What DistributedDataParallel's C++ does by address runs in regions, without PyTorch."""

import contextlib
import types

import pytest
from tidepool.hooks import _distributed


class Plugin:
    """Says whether a region is open."""

    def __init__(self):
        self.depth = 0

    @contextlib.contextmanager
    def region(self):
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


def torch_of(plugin, seen, *, available=True):
    def notes(*args, **kwargs):
        seen.append((plugin.depth, args, kwargs))
        if "fails" in kwargs:
            raise RuntimeError("refused")
        return len(seen)

    wrapper = type("DistributedDataParallel", (), {"_ddp_init_helper": notes})
    reducer = type("Reducer", (), {"_rebuild_buckets": notes})
    distributed = types.SimpleNamespace(is_available=lambda: available, Reducer=reducer,
                                        _verify_params_across_processes=notes)
    return types.SimpleNamespace(distributed=distributed, nn=types.SimpleNamespace(
        parallel=types.SimpleNamespace(DistributedDataParallel=wrapper)))


def test_it_runs_in_regions_as_it_was_called():
    plugin, seen = Plugin(), []
    torch = torch_of(plugin, seen)
    _distributed.follow_data_parallel(plugin, torch)
    model, reducer = torch.nn.parallel.DistributedDataParallel(), torch.distributed.Reducer()
    assert model._ddp_init_helper(["parameters"], static_graph=False) == 1
    assert torch.distributed._verify_params_across_processes("group", ["parameters"]) == 2
    assert reducer._rebuild_buckets() == 3
    assert seen == [(1, (model, ["parameters"]), {"static_graph": False}),
                    (1, ("group", ["parameters"]), {}), (1, (reducer,), {})]
    with pytest.raises(RuntimeError, match="refused"):
        reducer._rebuild_buckets(fails=True)
    assert plugin.depth == 0


def test_a_pytorch_without_processes_is_left_alone():
    plugin, seen = Plugin(), []
    torch = torch_of(plugin, seen, available=False)
    _distributed.follow_data_parallel(plugin, torch)
    torch.distributed.Reducer()._rebuild_buckets()
    assert seen[0][0] == 0
