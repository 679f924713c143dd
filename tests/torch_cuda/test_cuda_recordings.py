"""Recordings of jobs on the stand-in CUDA device: one for each device, with what was done on it."""

import pytest
from tidepool.report import recording


@pytest.mark.long
def test_each_device_has_a_recording(jobs, tmp_path):
    path = tmp_path / "job.rec"
    done = jobs.run("traced_job.py", "side_stream", "two_devices", "mlp", budget="6GiB",
                    environ=(("TIDEPOOL_RECORD", str(path)), ("TIDEPOOL_RECORD_SIZE", "4MiB"),
                             ("TIDEPOOL_CHAOS", "op")), devices=2, memory="8GiB", touch=False)
    assert done.returncode == 0, done.stderr
    assert "nothing is recorded" not in done.stderr
    for number, name in enumerate(("job.rec", "job.1.rec")):
        work = recording.read_recording(tmp_path / name)
        assert (work.head.device, work.head.ended) == (f"cuda:{number}", True)
        assert work.head.budget_bytes == 6 << 30
        assert any(size > 0 for size in work.history.loss_bytes)
        assert any(size < 0 for size in work.history.loss_bytes)
        assert len(work.history.replay_calls) > 0
        assert work.peak_bytes <= max(work.history.held_sizes)
        assert any(group[1] == "aten::addmm" for group in work.history.groups)
