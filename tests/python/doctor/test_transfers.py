"""How fast contents come and go: measured on a folder, and refused where nothing can lie."""

import os

import pytest
from tidepool.doctor import _transfers


def test_a_folder_is_measured_and_left_as_it_was(tmp_path):
    speed = _transfers.file_speed(str(tmp_path))
    assert min(speed.out, speed.back) > 0
    assert min(speed.out, speed.back) <= speed.each_way <= max(speed.out, speed.back)
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fails_is_no_speed(tmp_path, monkeypatch):
    with pytest.raises(_transfers.CannotMeasure, match="missing"):
        _transfers.file_speed(str(tmp_path / "missing"))
    monkeypatch.setattr(os, "pwritev", lambda *_: 1)
    with pytest.raises(_transfers.CannotMeasure, match="1 of 4194304 bytes"):
        _transfers.file_speed(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_folder_in_memory_is_refused():
    if not os.path.ismount("/dev/shm"):
        pytest.skip("no folder in memory is known here")
    with pytest.raises(_transfers.CannotMeasure, match="tmpfs"):
        _transfers.file_speed("/dev/shm")


def test_both_ways_together_take_as_long_at_one_speed():
    assert _transfers.Speed(out=1e9, back=3e9).each_way == pytest.approx(1.5e9)


def test_a_host_that_cannot_be_measured_says_why():
    with pytest.raises(_transfers.CannotMeasure, match="a copy to the host failed"):
        _transfers.host_speed({"PYTHONPATH": "/missing", "PATH": "", "CUDA_VISIBLE_DEVICES": ""})
