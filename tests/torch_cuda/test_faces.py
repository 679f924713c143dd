"""Every face of PyTorch's CUDA allocator says the same with Tidepool's in its place.

docs/cuda-allocator.md has the table; its rows name these tests.
"""

import re
from pathlib import Path

import pytest

FACES = ("statistics", "summary", "emptied", "fraction", "snapshot", "history", "streams",
         "raw_calls", "misused", "graphs", "trees", "mem_pools", "pinned", "profiled", "observed",
         "pool_observed", "saved", "shared", "peers", "backends", "disabled", "foreign_streams",
         "noted")
DEVICE = {"devices": 2, "memory": "2GiB"}
ASKED = {  # what the answers are about, so that two that say nothing do not pass
    "statistics": {"peak": 8 << 20, "reset": 0}, "emptied": {"cached": True, "given_back": True},
    "fraction": {"get": 1 / 32, "error": "OutOfMemoryError", "lower": None},
    "snapshot": {"found": [True, True]},
    "history": {"bytes": 6 << 20, "stack": True, "owner_stack": True, "ordered": True},
    "streams": {"active": 8 << 20, "reused_early": False}, "raw_calls": {"more": 5 << 20},
    "graphs": {"own": True, "shared": True}, "trees": {"live": True, "deleter_again": True},
    "mem_pools": {"inside": True, "outside": False}, "pinned": {"equal": True},
    "profiled": {"bytes": [7 << 20, -(7 << 20)]},
    "observed": {"error": "CUDA out of memory", "ooms": 1, "retried": True},
    "pool_observed": {"error": "OutOfMemoryError", "ooms": 1, "heard": 1},
    "noted": {"taken": [["of a test"], ["N/A"], True], "alloc": [["of a test"], ["N/A"], True],
              "freed": [[""], ["N/A"], True], "given_back": [[""], ["N/A"], True]},
    "saved": {"equal": True, "shared": True}, "shared": {"read": "499500.0\n", "status": 0},
    "foreign_streams": {"races": [], "reused": True},
    "peers": {"equal": [True, True]}, "backends": {"backend": "native"},
    "disabled": {"size": 4 << 20, "freed": -(4 << 20)},
}


# On the oldest supported PyTorch the usual run takes the first.
@pytest.fixture(params=[pytest.param("run", marks=pytest.mark.torch_floor), "enable"])
def ours(request, jobs) -> dict:
    """Attached before CUDA starts, and after it was used."""
    if request.param == "run":
        return jobs.json("face_jobs.py", budget="1GiB", **DEVICE)
    return jobs.json("face_jobs.py", "--enable", "1GiB", **DEVICE)


@pytest.mark.parametrize("face", FACES)
def test_a_face_says_the_same(jobs, ours, face):
    native = jobs.json("face_jobs.py", **DEVICE)
    assert ours[face] == native[face]
    assert {key: native[face].get(key) for key in ASKED.get(face, {})} == ASKED.get(face, {})


def test_a_fraction_of_the_settings_limits_the_job(jobs):
    environ = (("PYTORCH_CUDA_ALLOC_CONF", "per_process_memory_fraction:0.03125"),)  # 64 MiB
    said = [jobs.json("face_jobs.py", "limited", budget=budget, environ=environ, **DEVICE)
            for budget in (None, "1GiB")]
    expected = {"fraction": 1 / 32, "fits": 40, "error": "OutOfMemoryError"}
    assert said[0]["limited"] == said[1]["limited"] == expected


def test_nothing_is_misused(jobs, ours):
    assert ours["misuses"] == []
    assert set(ours) == {*FACES, "misuses"}


def test_the_table_names_every_face():
    text = (Path(__file__).parents[2] / "docs" / "cuda-allocator.md").read_text()
    named = set(re.findall(r"`test_a_face_says_the_same\[(\w+)\]`", text))
    assert named == set(FACES)
