"""Sizes as text mean the same to the Python package and to the libraries that no Python calls."""

import ctypes
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some
from tidepool.settings import _sizes

LIBRARY = (Path(__file__).resolve().parents[2] / "bindings" / "python" / "tidepool" / "lib" /
           "libtidepool_pluggable.so")
GREATEST = 2**64 - 1

digits = some.text("0123456789", min_size=1, max_size=12)
units = some.sampled_from([*_sizes.UNITS, "", "%", "gib", "G", "iB", "KiBB"])
spaces = some.text(" \t\n\v\f\r\x1c\xa0\u2003", max_size=2)
likely = some.tuples(spaces, digits, some.sampled_from(["", ".", ".5", ".."]), spaces, units,
                     spaces).map("".join)
anything = some.text(some.characters(blacklist_categories=["Cs"], blacklist_characters="\0"),
                     max_size=12)


@pytest.fixture(scope="module")
def library():
    return ctypes.CDLL(str(LIBRARY))


def python_accepts(text: str) -> bool:
    try:
        return _sizes.parse_size(text, device_bytes=GREATEST) <= GREATEST
    except ValueError:
        return False


@settings(max_examples=2000, deadline=None, derandomize=True, database=None)
@given(likely | anything)
@example("8GiB\xa0")
def test_both_accept_the_same_texts(library, text):
    accepted = library.tidepool_set_budget(text.encode()) == 0
    assert accepted == python_accepts(text)
