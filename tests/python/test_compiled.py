"""Inputs of torch.compile's graphs are resident when the generated code takes their pointers."""

import importlib
import sys
import types

import pytest
from tidepool import _compiled


class Graph:
    def __call__(self, inputs):
        return ("ran", list(inputs))


def stand_in(calls):
    plugin = types.SimpleNamespace(written=calls.append)
    return plugin, lambda value: value if isinstance(value, int) else 0


def test_inputs_are_marked_before_the_graph_runs():
    class Compiled(Graph):
        pass

    calls = []
    module = types.SimpleNamespace(CompiledFxGraph=Compiled)
    _compiled.wrap_graphs(module, *stand_in(calls))
    assert Compiled()([7, "no tensor", 8]) == ("ran", [7, "no tensor", 8])
    assert calls == [7, 8]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that stands for the compiler's, not imported yet."""
    (tmp_path / "compiler_of_test.py").write_text(
        "class CompiledFxGraph:\n    def __call__(self, inputs):\n        return 'ran'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(_compiled, "MODULE", "compiler_of_test")
    yield "compiler_of_test"
    sys.modules.pop("compiler_of_test", None)


@pytest.mark.parametrize("imported_before", [True, False])
def test_the_compiler_is_found_whenever_it_is_imported(module, imported_before):
    finders = len(sys.meta_path)
    calls = []
    if imported_before:
        importlib.import_module(module)
    _compiled.follow_compiled_graphs(*stand_in(calls))
    compiler = importlib.import_module(module)
    assert compiler.CompiledFxGraph()([5]) == "ran" and calls == [5]
    assert len(sys.meta_path) == finders
