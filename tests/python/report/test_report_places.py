"""Where operators are called, with a PyTorch that is faked as far as places ask it."""

import ctypes
import gc
import json
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
from tidepool.report.places import Places


class Module:
    def __init__(self, **children):
        self.children = children

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, child in self.children.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)


@pytest.fixture
def torch():
    """Return a PyTorch whose graph has `made` nodes, of which `running` runs."""
    fake = SimpleNamespace(__file__="/elsewhere/torch/__init__.py", made=0, running=None)
    fake.compiler = SimpleNamespace(is_compiling=lambda: False)
    fake._C = SimpleNamespace(
        _autograd=SimpleNamespace(_get_sequence_nr=lambda: fake.made),
        _current_autograd_node=lambda: fake.running and SimpleNamespace(
            _sequence_nr=lambda: fake.running[0]))
    return fake


@pytest.fixture
def places(torch):
    return Places(torch)


def ask(places) -> dict:
    """Do what an operator does that is called here."""
    return json.loads(ctypes.string_at(places._pointer()))


def test_lines_end_with_the_innermost(places):
    def inner():
        return ask(places)

    lines = inner()["lines"]
    here = Path(__file__).name
    assert [line.split(" ")[-1] for line in lines[-3:]] == [
        "test_lines_end_with_the_innermost",
        "test_lines_end_with_the_innermost.<locals>.inner", "ask"]
    assert all(f"{here}:" in line and "site-packages" not in line for line in lines[-3:])


def test_equal_places_have_one_text(places):
    first, second = (places._pointer() for _ in range(2))
    assert first == second != places._pointer()


def test_the_module_is_named_from_the_outermost(places):
    leaf = Module()
    root = Module(body=Module(head=leaf))
    places._enter(root, ())
    assert ask(places)["module"] == "Module"
    places._enter(leaf, ())
    assert ask(places)["module"] == "Module.body.head"
    places._leave(leaf, (), None)
    stranger = Module()
    places._enter(stranger, ())  # made while its root ran
    assert ask(places)["module"] == "Module"
    places._leave(root, (), None)  # of which the stranger's end was not seen
    assert "module" not in ask(places)


def test_backward_has_the_place_of_its_forward_operator(places, torch):
    module = Module()
    places._enter(module, ())
    torch.made = 7
    forward = ask(places)
    inside = ask(places)  # runs within the same node: no node was made for it
    places._leave(module, (), None)
    torch.running = (6,)
    assert ask(places) == {**forward, "backward": True} != {**inside, "backward": True}
    torch.running = (99,)  # a node whose forward operator was not seen
    found = ask(places)
    assert found["backward"] and found["lines"] and "module" not in found


def test_threads_have_modules_of_their_own(places):
    places._enter(Module(), ())
    found = []
    thread = threading.Thread(target=lambda: found.append(ask(places)))
    thread.start()
    thread.join()
    assert "module" not in found[0]


def test_nothing_of_the_job_is_kept_alive(places):
    module, value = Module(), Module()
    seen = weakref.ref(module), weakref.ref(value)
    places._enter(module, (value,))
    ask(places)
    places._leave(module, (value,), None)
    del module, value
    gc.collect()
    assert [reference() for reference in seen] == [None, None]


def test_what_cannot_be_found_out_is_not_known(places, torch):
    def fails():
        raise RuntimeError

    places._running_node = fails
    assert places._pointer() is None
