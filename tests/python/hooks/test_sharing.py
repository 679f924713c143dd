"""A CUDA storage moves before it is shared."""

import types

from tidepool.hooks import _sharing


def test_a_cuda_storage_moves_first():
    calls = []

    class Storage:
        def __init__(self, kind):
            self.device, self._cdata = types.SimpleNamespace(type=kind), 5

        def _share_cuda_(self, *rest):
            calls.append(("share", *rest))
            return "handle"

    plugin = types.SimpleNamespace(make_shareable=lambda storage: calls.append(("move", storage)))
    _sharing.move_before_sharing(plugin, Storage)
    assert Storage("cuda")._share_cuda_(1) == "handle"
    assert calls == [("move", 5), ("share", 1)]
    Storage("cpu")._share_cuda_()
    assert calls[2:] == [("share",)]
