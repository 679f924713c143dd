"""What has begun in C ends, also where a signal's handler raises as the call returns."""

import pytest
from tidepool.job import _plugin


class Interrupted(Exception):
    pass


class Library:
    """Notes calls; the first one that begins anything ends as if a handler raised right after."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self.begun = 0

    def __getattr__(self, name):
        def call(*arguments):
            if name.startswith(("tidepool_begin_", "tidepool_hold")):
                self.begun += 1
                cell = next(each._obj for each in arguments if hasattr(each, "_obj"))
                cell.value = self.begun
                self.open.append(self.begun)
                raise Interrupted
            if name.startswith(("tidepool_end_", "tidepool_let_go")):
                self.open.remove(getattr(arguments[-1], "value", arguments[-1]))
            return 0

        return call


@pytest.fixture
def plugin():
    made = _plugin.Plugin.__new__(_plugin.Plugin)
    made.library = Library()
    made._local = type("Local", (), {})()
    return made


@pytest.mark.parametrize("enter", [
    lambda plugin: plugin.settling(), lambda plugin: plugin.keeping(),
    lambda plugin: plugin.own_kernel(), lambda plugin: plugin.region(),
    lambda plugin: plugin.holding([7, 0, 8]), lambda plugin: plugin.holding([], written=9)],
    ids=["settling", "keeping", "own_kernel", "region", "holding", "written"])
def test_what_has_begun_ends(plugin, enter):
    with pytest.raises(Interrupted), enter(plugin):
        pytest.fail("the block began")
    assert plugin.library.begun == 1
    assert not plugin.library.open
