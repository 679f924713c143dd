"""A device that answers no more, or never did in this process, costs an error that says so.

After an error that breaks the context, in a forked child, at the process's end, and where the host
has no more page-locked memory.
"""

import pytest

OPTIONS = {"budget": "64MiB", "memory": "1GiB"}


def said(jobs, name: str, **knobs) -> dict:
    return jobs.json("gone_device_jobs.py", name, **{**OPTIONS, **knobs})


def test_a_broken_context_is_no_shortage_of_memory(jobs):
    found = said(jobs, "broken")
    assert "an illegal memory access was encountered" in found["launch"]
    for name in ("memory", "again"):
        assert "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in found[name]
    assert found["kept"] == 4
    assert found["refusals"] == 0


@pytest.mark.torch_floor
@pytest.mark.parametrize("devices", [1, 2])
def test_a_forked_child_ends_well(jobs, devices):
    found = said(jobs, "forked", devices=devices)
    assert set(found["children"]) == {0}
    assert {**found, "children": []} == {"children": [], "ends": 0, "parent": True, "misuses": []}


@pytest.mark.torch_floor
def test_a_process_ends_well_with_everything_alive(jobs):
    done = jobs.run("gone_device_jobs.py", "ended", **OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "terminate" not in done.stderr
    assert "tidepool: cuda:0: peak" in done.stderr


def test_page_locked_memory_that_is_refused_is_an_error_of_its_own(jobs):
    found = said(jobs, "pinned")
    assert "out of memory" in found["pinned"]
    assert found["copied"] == 1
    assert found["small"] == 10
