"""A job of two processes that share their gradients gives the same results under chaos."""

import sys

import harness
import pytest
from selection import FULL

JOB = str(harness.HERE / "processes/data_parallel_job.py")


@pytest.mark.parametrize("options", [
    *([pytest.param([], id="copies")] if FULL else []),
    pytest.param(["--bucket-views"], id="bucket_views")])
def test_gradients_of_two_processes(tmp_path, options):
    printed = []
    for number, settings in enumerate([{}, {"TIDEPOOL_CHAOS": "op", "TIDEPOOL_DEVICE": "cpu"}]):
        command = [sys.executable, JOB, str(tmp_path / f"rendezvous{number}"), *options]
        done = harness.run(command, **settings)
        assert done.returncode == 0, done.stderr
        assert ("attached" in done.stderr) == bool(settings)
        printed.append(done.stdout)
    assert printed[0].count("loss") == 3
    assert printed[0] == printed[1]
