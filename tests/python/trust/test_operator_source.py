"""What defines an operator in Python: the files of all functions that it names."""

import importlib
import sys
import types

import pytest
from tidepool.trust import _operator_source

FILES = {
    "source_decorator.py": """
import time

def timed(function):
    def run(x):
        began = time.monotonic()
        return function(x)
    return run
""",
    "source_helper.py": """
def work(x):
    return x * 2
""",
    "source_class.py": """
class Scale:
    def run(self, x):
        return x
""",
    "source_default.py": """
def same(x):
    return x
""",
    "source_operator.py": """
import functools
import json
import os
import math
import source_helper
from source_class import Scale
from source_decorator import timed
from source_default import same

class Lazy:
    def __getattr__(self, name):
        raise RuntimeError(name)

lazy = Lazy()
root = functools.wraps(math.sqrt)(lambda x: math.sqrt(x))

def scale(x, by, then=same):
    return then([source_helper.work(x) * by for _ in range(1)][0])

tripled = functools.partial(scale, by=3)

@timed
def kernel(x):
    json.dumps({})
    os.getenv("HOME")
    return Scale().run(tripled(root(x))) if lazy else x

def unused(x):
    return x
""",
}


@pytest.fixture
def described(tmp_path, monkeypatch):
    """Return a function that imports the files, one of them changed, and describes the operator."""
    monkeypatch.syspath_prepend(str(tmp_path))

    class Library:
        ns = "mine"

        def impl(self, name, function, key=""):
            pass

    fake = types.SimpleNamespace(__file__="/nowhere/torch/__init__.py",
                                 library=types.SimpleNamespace(Library=Library))
    books = types.SimpleNamespace(custom_ops=types.SimpleNamespace(OPDEFS={}))
    monkeypatch.setitem(sys.modules, "torch._library", books)

    def describe(changed=None):
        for name, text in FILES.items():
            (tmp_path / name).write_text(text + ("\n# changed\n" if name == changed else ""))
            sys.modules.pop(name.removesuffix(".py"), None)
        importlib.invalidate_caches()
        module = importlib.import_module("source_operator")
        sources = _operator_source.OperatorSources(fake)
        sources.follow()
        fake.library.Library().impl("scaled", module.kernel, "CPU")
        return sources.describe("mine::scaled", "")

    yield describe
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_an_operator_is_defined_by_all_files_that_it_reaches(described):
    names, digest = described()
    assert names == ", ".join(sorted(FILES))
    assert described() == (names, digest)
    for name in FILES:
        assert described(name) != (names, digest), name
