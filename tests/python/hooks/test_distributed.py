"""What happens around C++ of distributed jobs that reads by address, without PyTorch."""

import contextlib
import types

import pytest
from tidepool.hooks import _distributed


class Plugin:
    """Says whether a region is open, and whether everything is kept."""

    def __init__(self):
        self.depth, self.kept, self.escaped = 0, 0, []

    def escape(self, storage):
        self.escaped.append(storage)

    @contextlib.contextmanager
    def keeping(self):
        self.kept += 1
        try:
            yield
        finally:
            self.kept -= 1

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


def test_what_a_backend_is_given_stays():
    def reduces(self, tensors, *, other=None):
        """reduces(tensors: list[Tensor])"""
        return tensors, other

    def names(self):
        return "gloo"

    backend = type("Backend", (), {"reduces": reduces, "names": names})
    processes = types.SimpleNamespace(Backend=backend)
    torch = types.SimpleNamespace(
        distributed=types.SimpleNamespace(is_available=lambda: True),
        utils=types.SimpleNamespace(_pytree=types.SimpleNamespace(tree_leaves=leaves)),
        _C=types.SimpleNamespace(_distributed_c10d=processes))
    plugin = Plugin()
    _distributed.follow_backends(plugin, torch, {"x": 1, "y": 2}.get)
    gloo = type("Gloo", (backend,), {})()
    assert gloo.reduces(["x", "number"], other={"key": "y"}) == (["x", "number"], {"key": "y"})
    assert plugin.escaped == [1, 2]
    assert gloo.names() == "gloo"
    assert backend.names is names


def leaves(tree):
    """Return what is in lists and dictionaries and is no such thing itself."""
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, list | tuple):
        return [tree] if isinstance(tree, str) else []
    return [leaf for each in tree for leaf in leaves(each)]


def test_a_pytorch_without_processes_is_left_alone():
    plugin, seen = Plugin(), []
    torch = torch_of(plugin, seen, available=False)
    _distributed.follow_data_parallel(plugin, torch)
    _distributed.follow_backends(plugin, torch, None)
    torch.distributed.Reducer()._rebuild_buckets()
    assert seen[0][0] == 0


def torch_with_messages(plugin, seen, *, available=True):
    def start(agent):
        seen.append(("start", agent, plugin.kept))
        if agent is None:
            raise RuntimeError("no agent")

    api = types.SimpleNamespace(_set_and_start_rpc_agent=start,
                                _reset_current_rpc_agent=lambda: seen.append(("stop", plugin.kept)))
    rpc = types.SimpleNamespace(api=api, is_available=lambda: available)
    return types.SimpleNamespace(
        distributed=types.SimpleNamespace(is_available=lambda: True, rpc=rpc))


def test_everything_stays_while_messages_are_sent():
    plugin, seen = Plugin(), []
    torch = torch_with_messages(plugin, seen)
    _distributed.follow_messages(plugin, torch)
    api = torch.distributed.rpc.api
    with pytest.raises(RuntimeError, match="no agent"):
        api._set_and_start_rpc_agent(None)
    assert plugin.kept == 0
    for _ in range(2):
        api._set_and_start_rpc_agent("agent")
        assert plugin.kept == 1
        api._reset_current_rpc_agent()
        assert plugin.kept == 0
    assert seen == [("start", None, 1), *[("start", "agent", 1), ("stop", 1)] * 2]


def test_a_pytorch_without_messages_is_left_alone():
    plugin, seen = Plugin(), []
    torch = torch_with_messages(plugin, seen, available=False)
    _distributed.follow_messages(plugin, torch)
    torch.distributed.rpc.api._set_and_start_rpc_agent("agent")
    assert seen == [("start", "agent", 0)]
