"""Where the address that a job asks for may be kept, by the code that asks."""

import contextlib
import functools
import operator
import sys

import pytest
from tidepool.hooks import _addresses

OF_A_REMAINDER = (
    "a.data_ptr() % 16",
    "a.data_ptr() % (2 << 20)",
    "a.data_ptr() % unit",
    "a.data_ptr() % (2 * pair[0]) == 0",
    "not a.data_ptr() % -unit",
    "pair[1].data_ptr() % sizes.unit",
)
KEEPING = (
    "a.data_ptr()",
    "a.data_ptr() // 16",
    "a.data_ptr() & -16",
    "16 % a.data_ptr()",
    "-a.data_ptr() % 16",
    "a.data_ptr() + 5 % 16",
    "a.data_ptr() == a.data_ptr()",
    "(a.data_ptr(), 5 % 3)",
    "[a.data_ptr()][0] % 16",
    "a.data_ptr().__mod__(16)",
    "(kept := a.data_ptr()) % 16",
    "a.data_ptr() % max(unit, 2)",
    "a.data_ptr() % 2**64",
    "a.data_ptr() % word",
    "a.data_ptr() % (1 << pair[2])",
    "a.data_ptr() % keeper",
    "a.data_ptr() % sizes.computed",
    "a.data_ptr() % sizes.missing",
    "a.data_ptr() % pair.missing",
    "a.data_ptr() % unknown",
    "a.data_ptr() % pair[7]",
    "a.data_ptr() % (unit // 0)",
    "a.data_ptr() % (unit << -1)",
    "a.data_ptr() % (unit / 2)",
    "foreign(a) % 16",
    "partial() % 16",
    "getattr(a, 'data_ptr')() % 16",
)


class Asked:
    """Stands for a tensor: its address is asked for by whoever calls `data_ptr`."""

    def __init__(self):
        self.found = []

    def data_ptr(self):
        self.found.append(_addresses.takes_remainder(sys._getframe(1)))
        return 64


class Sizes:
    """Has a number, and one that is computed when it is asked for."""

    def __init__(self):
        self.unit = 4

    @property
    def computed(self):
        return 8


def verdicts(expression, times=50):
    """Return what is said while an expression runs so often that Python specializes it."""
    asked = Asked()
    names = {"unit": 16, "pair": (8, asked, 62), "foreign": operator.methodcaller("data_ptr"),
             "sizes": Sizes(), "partial": functools.partial(asked.data_ptr), "word": 1 << 64,
             "keeper": type("Keeper", (), {"__rmod__": lambda self, other: other})()}
    exec(f"def ask(a):\n    return {expression}\n", names)
    for _ in range(times):
        with contextlib.suppress(ArithmeticError, AttributeError, LookupError, NameError,
                                 ValueError):
            names["ask"](asked)
    return set(asked.found)


@pytest.mark.parametrize("expression", OF_A_REMAINDER)
def test_of_an_alignment_nothing_is_kept(expression):
    assert verdicts(expression) == {True}


@pytest.mark.parametrize("expression", KEEPING)
def test_an_address_that_goes_anywhere_else_may_be_kept(expression):
    assert verdicts(expression) == {False}


def test_instructions_with_long_arguments():
    names = [f"name_{k}" for k in range(600)]
    lines = [f"    {name} = {k + 1}" for k, name in enumerate(names)]
    space = {}
    exec("\n".join(["def ask(a):", *lines, "    return a.data_ptr() % name_599"]), space)
    asked = Asked()
    space["ask"](asked)
    assert asked.found == [True]


class Library:
    def __init__(self):
        self.noted = []

    def tidepool_address_place(self, code, instruction, keeps):
        self.noted.append(keeps)


def paused():
    """Return a frame that stays where it is."""
    def wait():
        yield

    generator = wait()
    next(generator)
    return generator


def test_a_divisor_is_looked_up_each_time():
    library = Library()
    places = _addresses.AddressPlaces(type("Plugin", (), {"library": library}))

    class Judged:
        def data_ptr(self):
            found.append(places.keeps(sys._getframe(1)))
            return 64

    def ask(divisor):
        return Judged().data_ptr() % divisor

    found = []
    for divisor in (16, 1 << 40, 32, 1.5):
        ask(divisor)
    assert found == [False, True, False, True]
    assert library.noted == []


def test_libraries_that_save_at_the_address_let_go_of_it():
    places = _addresses.AddressPlaces(type("Plugin", (), {"library": Library()}))
    text = "def {}():\n    yield 1\n"
    verdicts = {}
    for module, name in (("safetensors.torch", "_to_ndarray"), ("safetensors.torch", "_other"),
                         ("job", "_to_ndarray")):
        names = {"__name__": module}
        exec(text.format(name), names)
        verdicts[module, name] = places.keeps(names[name]().gi_frame)
    assert verdicts == {("safetensors.torch", "_to_ndarray"): False,
                        ("safetensors.torch", "_other"): True, ("job", "_to_ndarray"): True}


def test_a_place_is_judged_once_and_told_to_the_plugin(monkeypatch):
    library = Library()
    places = _addresses.AddressPlaces(type("Plugin", (), {"library": library}))
    first, second = paused(), paused()
    assert places.keeps(first.gi_frame)
    assert places.keeps(first.gi_frame)
    assert library.noted == [True]
    monkeypatch.setattr(_addresses, "_MOST", 1)  # there is no room for a second one
    assert places.keeps(second.gi_frame)
    assert library.noted == [True]
