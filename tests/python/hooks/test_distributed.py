"""The hook that fixes gradients of DistributedDataParallel, without PyTorch."""

import types

from tidepool.hooks import _distributed


class Parameter:
    def __init__(self):
        self.grad = None
        self.hooks = []

    def register_post_accumulate_grad_hook(self, hook):
        self.hooks.append(hook)


def test_gradients_are_fixed_when_they_are_accumulated():
    order = []

    class Wrapper:
        def _ddp_init_helper(self, parameters, *rest):
            order.append(("reducer", [len(parameter.hooks) for parameter in parameters], rest))

    torch = types.SimpleNamespace(nn=types.SimpleNamespace(
        parallel=types.SimpleNamespace(DistributedDataParallel=Wrapper)))
    plugin = types.SimpleNamespace(written=lambda storage: order.append(("fixed", storage)))
    _distributed.follow_data_parallel(plugin, torch, {"a gradient": 17, "without storage": 0}.get)
    parameters = [Parameter(), Parameter()]
    Wrapper()._ddp_init_helper(parameters, False, {})
    assert order == [("reducer", [1, 1], (False, {}))]  # ours come before the reducer's
    for gradient in (None, "without storage", "a gradient"):
        parameters[0].grad = gradient
        parameters[0].hooks[0](parameters[0])
    assert order[1:] == [("fixed", 17)]
