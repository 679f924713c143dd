"""Statistics files: one process takes the path, the others of the job get names of their own."""

import contextlib
import json
import os
import subprocess
import sys

from tidepool.job._stats_file import OWNER_VARIABLE, StatsFile, may_replace


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_written_whole_and_nothing_left_over(tmp_path):
    stats = StatsFile(str(tmp_path / "out.json"), {})
    assert json.loads((tmp_path / "out.json").read_text())["state"] == "running"
    stats.write({"state": "finished", "devices": {}})
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["pid"] == os.getpid() and content["devices"] == {}
    assert names(tmp_path) == ["out.json"]


def test_processes_of_one_job_do_not_overwrite_each_other(tmp_path):
    code = ("import os; from tidepool.job._stats_file import StatsFile; "
            f"StatsFile({str(tmp_path / 'out.json')!r}, os.environ)"
            ".write({'state': 'finished'}); print(os.getpid())")
    environ = {**os.environ, "PYTHONPATH": ":".join(sys.path), OWNER_VARIABLE: "job"}
    pids = [int(subprocess.check_output([sys.executable, "-c", code], env=environ))
            for _ in range(3)]
    assert names(tmp_path) == sorted(["out.json", *(f"out.{pid}.json" for pid in pids[1:])])
    assert json.loads((tmp_path / "out.json").read_text())["pid"] == pids[0]


def test_an_earlier_jobs_file_is_replaced_but_a_running_ones_is_not(tmp_path):
    path = tmp_path / "out.json"
    path.write_text(json.dumps({"job": "old", "pid": 2**22 + 1, "state": "running"}))
    assert StatsFile(str(path), {}).path == path
    path.write_text(json.dumps({"job": "old", "pid": os.getppid(), "state": "running"}))
    assert StatsFile(str(path), {}).path == tmp_path / f"out.{os.getpid()}.json"


def test_children_learn_of_their_job():
    environ = {}
    with contextlib.suppress(FileNotFoundError):
        StatsFile("/nowhere/at/all.json", environ)
    assert environ[OWNER_VARIABLE]


def test_only_statistics_are_replaced(tmp_path):
    path = tmp_path / "train.py"
    assert may_replace(path)
    path.write_text("print(1)")
    assert not may_replace(path)
    StatsFile(str(path), {})
    assert may_replace(path)
