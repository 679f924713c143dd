"""Lines are written whole and read up to the last whole one."""

import os

import pytest
from tidepool.verify import _json_lines


def test_what_is_written_is_read_in_order(tmp_path):
    lines = _json_lines.JsonLines(tmp_path / "log")
    written = [{"kind": "a", "values": [1, None, "ü"]}, {"kind": "b" * 200_000}]
    for line in written:
        lines.write(line)
        assert list(_json_lines.read(tmp_path / "log"))[-1] == line  # at once
    assert list(_json_lines.read(tmp_path / "log")) == written


def test_a_cut_line_is_left_out(tmp_path):
    (tmp_path / "log").write_text('{"kind": "a"}\n{"kind": "b')
    assert list(_json_lines.read(tmp_path / "log")) == [{"kind": "a"}]


def test_a_file_that_exists_is_not_taken(tmp_path):
    (tmp_path / "log").touch()
    with pytest.raises(FileExistsError):
        _json_lines.JsonLines(tmp_path / "log")


def test_a_forked_child_repeats_nothing(tmp_path):
    lines = _json_lines.JsonLines(tmp_path / "log")
    lines.write({"n": 1})
    child = os.fork()
    if child == 0:
        lines.write({"n": 2})
        os._exit(0)
    os.waitpid(child, 0)
    assert list(_json_lines.read(tmp_path / "log")) == [{"n": 1}, {"n": 2}]
