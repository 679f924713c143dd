"""Trust files: what is written is read, and nothing else is."""

import json

import pytest
from tidepool.settings import _settings
from tidepool.trust import _trust_file
from tidepool.trust._trust_file import Checked

FOUND = {"mylib::good": Checked("", "lib.so", "0f", 3, 2003, ["2x3 float32"]),
         "mylib::bad": Checked("it draws random numbers", "", "", 1, 1)}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trust.json"
    _trust_file.write(path, "2.15.0", FOUND)
    return path


def test_what_is_written_is_read(file):
    assert _trust_file.read(file) == ("2.15.0", FOUND)
    assert [each.name for each in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(("spoil", "said"), [
    (lambda text: text[:-40], "damaged"),
    (lambda text: text.replace("2003", "2004"), "was changed by hand"),
    (lambda text: text.replace('"format": 1', '"format": 2'), "format 2, expected 1"),
    (lambda text: "[]", "no trust file"),
    (lambda text: json.dumps({"devices": {}}), "no trust file"),
])
def test_anything_else_is_refused(file, spoil, said):
    file.write_text(spoil(file.read_text()))
    with pytest.raises(_trust_file.TrustFileError, match=said):
        _trust_file.read(file)
    with pytest.raises(_settings.SettingsError, match=said):
        _settings.resolve({"budget": "1GiB", "device": "cpu", "trust": str(file)}, {})


@pytest.mark.parametrize("operators", [
    {"mylib::op": {"calls": "3"}}, {"mylib::op": {"unknown": 1}}, {"mylib::op": None}, [1]])
def test_a_file_with_wrong_fields_is_refused(file, operators):
    content = {"format": 1, "torch": "2.15.0", "operators": operators}
    file.write_text(json.dumps({"tidepool_trust": content,
                                "digest": _trust_file._digest(content)}))
    with pytest.raises(_trust_file.TrustFileError, match="wrong fields"):
        _trust_file.read(file)


def test_a_file_nested_beyond_measure_is_refused(file):
    file.write_text("[" * 100_000)
    with pytest.raises(_trust_file.TrustFileError, match="no trust file"):
        _trust_file.read(file)


def test_only_trust_files_are_replaced(file, tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    assert _trust_file.may_replace(file)
    assert _trust_file.may_replace(tmp_path / "new")
    assert not _trust_file.may_replace(other)
    assert not _trust_file.may_replace(tmp_path)


def test_one_process_that_refuses_an_operator_is_enough(file, tmp_path):
    other = tmp_path / "other.json"
    _trust_file.write(other, "2.15.0", {
        "mylib::good": Checked("it writes an operand", "lib.so", "0f", 2, 2, ["4 float32"]),
        "mylib::new": Checked("", "lib.so", "0f", 1, 1)})
    version, found = _trust_file.merged([file, other])
    assert version == "2.15.0"
    assert found == {
        "mylib::bad": FOUND["mylib::bad"], "mylib::new": Checked("", "lib.so", "0f", 1, 1),
        "mylib::good": Checked("it writes an operand", "lib.so", "0f", 5, 2005,
                               ["2x3 float32", "4 float32"])}


def test_processes_with_other_libraries_refuse_an_operator(file, tmp_path):
    other = tmp_path / "other.json"
    _trust_file.write(other, "2.15.0", {"mylib::good": Checked("", "lib.so", "1e", 1, 1)})
    assert "differently" in _trust_file.merged([file, other])[1]["mylib::good"].reason


def test_lists_of_operators():
    assert _trust_file.operators_in("a::b, c::d.Tensor") == ("a::b", "c::d.Tensor")
    for text in ("add", "aten::add", "a::b,", "a::b c::d"):
        with pytest.raises(_settings.SettingsError, match="expected operators outside of aten"):
            _settings.resolve({"budget": "1GiB", "device": "cpu", "replay": text}, {})


def test_operators_are_not_trusted_on_cuda():
    with pytest.raises(_settings.SettingsError, match="only on cpu so far"):
        _settings.resolve({"budget": "1GiB", "device": "cuda", "replay": "a::b"}, {})
