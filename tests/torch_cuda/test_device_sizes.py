"""Small and very large devices are used to their last page: 4,096 and 73,728 of 2 MiB."""

import pytest

GIB = 1 << 30
PAGE = 2 << 20


@pytest.mark.parametrize("gib", [8, 144])
def test_all_of_a_device_is_used_and_given_back(jobs, gib):
    said = jobs.json("device_size_job.py", budget="100%", memory=f"{gib}GiB", touch=False)
    pages = gib * GIB // PAGE
    assert said == {"handles": pages, "used": gib * GIB, "moved": pages, "bytes": gib * GIB // 2,
                    "left": 0, "misuses": []}
