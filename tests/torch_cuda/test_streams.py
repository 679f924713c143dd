"""What comes back on one stream is whole wherever the job may read it: same values, no race."""

import pytest

pytestmark = pytest.mark.torch_floor

CASES = ("settled_elsewhere", "address_taken_elsewhere", "address_of_what_an_operator_restored",
         "address_of_what_was_read_elsewhere", "used_beside_another_device",
         "written_on_the_default_stream", "written_where_readers_were_evicted",
         "read_on_streams_of_others", "gradients_between_streams")
DEVICE = {"memory": "8GiB", "granularity": "64KiB", "devices": 2}
AMPLE = "1GiB"
WAYS = {"recompute": (), "copy": (("TIDEPOOL_OFFLOAD", "host:1GiB"),)}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", WAYS)
def test_no_stream_reads_too_early(jobs, way, case):
    expected = jobs.json("stream_jobs.py", **DEVICE)[case]
    every = jobs.json("stream_jobs.py", budget=AMPLE, environ=WAYS[way], **DEVICE)
    assert every[case]["prints"] == expected["prints"]
    assert every[case]["races"] == every["misuses"] == []
    stays = way == "recompute" and case == "written_on_the_default_stream"
    assert (every[case]["evicted"] > 0) is not stays
