"""Files of running jobs: written whole, removed at the end, and by readers after a kill."""

import json
import os
import subprocess
import sys
import threading

import pytest
from installation import HERE
from tidepool.job import _live


def statistics(evictions=3):
    return {"cpu": {**dict.fromkeys(_live.KEYS, 1), "evictions": evictions, "windows": 9}}


def test_a_file_has_two_samples_and_goes_at_the_end(tmp_path):
    given = iter((3, 5, 8))
    live = _live.LiveFile(lambda: statistics(next(given)), tmp_path / "new")
    for _ in range(3):
        live.write()
    (content,) = _live.jobs(tmp_path / "new")
    assert content["pid"] == os.getpid() and content["command"][0].endswith("python")
    assert [each["devices"]["cpu"]["evictions"] for each in content["samples"]] == [5, 8]
    assert "windows" not in content["samples"][0]["devices"]["cpu"]
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    live.close()
    live._statistics = statistics
    live.write()  # the thread may be about to
    assert list(_live.jobs(tmp_path / "new")) == []
    assert not (tmp_path / "new" / str(os.getpid())).exists()


def test_the_thread_is_not_among_pythons(tmp_path, monkeypatch):
    monkeypatch.setattr(_live, "PERIOD_SECONDS", 0.001)
    written = threading.Event()
    calls = []

    def given():
        calls.append(1)
        if len(calls) == 3:
            written.set()
        return statistics()

    before = threading.enumerate()
    live = _live.LiveFile(given, tmp_path)
    live.start()
    assert written.wait(30) and threading.enumerate() == before
    live.close()


def test_files_of_the_dead_are_removed(tmp_path):
    done = subprocess.Popen(["true"])
    done.wait()
    for name, content in ((str(done.pid), {"pid": done.pid, "started": "1"}),
                          (str(os.getpid()), {"pid": os.getpid(), "started": "another time"})):
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "7").write_text("half a li")
    (tmp_path / "note").write_text("of somebody's")
    assert list(_live.jobs(tmp_path)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["7", "note"]
    assert list(_live.jobs(tmp_path / "none")) == []


def test_a_folder_of_somebody_elses_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="another user"):
        _live.LiveFile(statistics, tmp_path)


def test_a_job_is_shown_while_it_runs(installation, tmp_path):
    job = ("import json, os, torch, tidepool.job._live as live\n"
           "print(json.dumps([c['samples'][0] for c in live.jobs() if c['pid'] == os.getpid()]))")
    paths = f"{installation.package.parent}:{HERE}/fake_torch"
    run = [sys.executable, "-c", job]
    done = installation.tidepool("run", "--budget", "1GiB", "--top", "--", *run, check=0,
                                 PYTHONPATH=paths)
    (sample,) = json.loads(done.stdout)
    assert sample["devices"]["cpu"]["evictions"] == 3
    done = installation.tidepool("run", "--budget", "1GiB", "--", *run, check=0, PYTHONPATH=paths)
    assert json.loads(done.stdout) == []
    done = installation.run(*run, check=0, PYTHONPATH=paths, TIDEPOOL_TOP="1")
    assert json.loads(done.stdout) == [] and done.stderr == ""  # alone it asks for nothing
