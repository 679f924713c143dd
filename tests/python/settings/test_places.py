"""Nothing but a regular file is ever replaced."""

import os

import pytest
from tidepool.settings import _places


def test_nothing_and_regular_files_may_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("nothing", "file", "link", "dangling"):
        assert _places.obstacle(tmp_path / name) is None


def test_a_pipe_and_a_folder_are_no_regular_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link", "."):
        assert _places.obstacle(tmp_path / name) == "is no regular file"


@pytest.mark.parametrize("path", ["/dev/null", "/dev/full", "/dev/stdout", "/proc/self/fd/1"])
def test_the_systems_own_are_refused(path):
    assert _places.obstacle(path).startswith("is of the system")


@pytest.mark.parametrize("name", ["x" * 300, "nul\0byte"])
def test_what_can_be_no_path_is_refused(tmp_path, name):
    assert _places.obstacle(tmp_path / name).startswith("cannot be a file's path")
