"""Which operators may be replayed, as the plugin asks."""

import pytest
from tidepool.trust import _trust, _trust_file
from tidepool.trust._trust_file import Checked


class Sources:
    """Operators defined in one library, whose digest is 0f."""

    @staticmethod
    def is_of_torch(library):
        return library == "libtorch_cpu.so"

    @staticmethod
    def describe(operator, library):
        return library, "0f"


CHECKED = {"mylib::good": Checked("", "lib.so", "0f"),
           "mylib::changed": Checked("", "lib.so", "1e"),
           "mylib::bad": Checked("it draws random numbers")}


@pytest.mark.parametrize(("operator", "tells_all", "verdict", "said"), [
    ("mylib::good", True, "trusted", 0),
    ("mylib::good", False, "kept: by its schema it writes", 0),
    ("mylib::bad", True, "kept: it draws random numbers", 0),
    ("mylib::changed", True, "kept: lib.so is not what was checked (lib.so)", 1),
    ("mylib::unknown", True, "kept: not checked", 0),
    ("mylib::forced", True, "trusted", 0),
    ("mylib::forced.Tensor", True, "trusted", 0),
    ("mylib::forced", False, "kept: by its schema it writes", 1),
    ("mylib::kept", True, "kept: keep", 0),
])
def test_verdicts(operator, tells_all, verdict, said):
    lines = []
    trust = _trust.Trust({**CHECKED, "mylib::kept": CHECKED["mylib::good"]},
                         ("mylib::forced", "mylib::kept"), ("mylib::kept",), Sources(),
                         lines.append)
    assert trust.judge(operator, "lib.so", tells_all) == (verdict == "trusted")
    assert trust.verdicts[operator].startswith(verdict)
    assert len(lines) == said
    assert trust.namespaces() == ({"mylib"} if verdict == "trusted" else set())


def test_operators_of_pytorch_are_not_listed():
    trust = _trust.Trust({}, (), (), Sources(), print)
    assert not trust.judge("profiler::enter", "libtorch_cpu.so", True)
    assert trust.verdicts == {}


def test_named_operators_that_nobody_asked_of():
    trust = _trust.Trust({}, ("mylib::forced", "mylib::typo"), ("mylib::kept.out",), Sources(),
                         print)
    for operator in ("mylib::forced.Tensor", "mylib::kept", "mylib::typo2"):
        trust.judge(operator, "lib.so", True)
    assert trust.uncalled() == ["mylib::typo", "mylib::kept.out"]


def test_an_error_keeps_an_operator():
    trust = _trust.Trust(CHECKED, (), (), None, print)
    trust._sources = type("Broken", (), {"is_of_torch": staticmethod(lambda library: False)})
    assert not trust.judge("mylib::good", "lib.so", True)
    assert "AttributeError" in trust.verdicts["mylib::good"]


def test_a_file_of_another_pytorch_trusts_nothing(tmp_path):
    path, lines = tmp_path / "trust.json", []
    _trust_file.write(path, "2.11.0", CHECKED)
    assert _trust.load(str(path), "2.11.0", lines.append) == CHECKED
    assert not lines
    assert _trust.load(str(path), "2.15.0", lines.append) == {}
    assert len(lines) == 1
    assert "made with PyTorch 2.11.0, not 2.15.0" in lines[0]
