"""What once went wrong in other CUDA allocators does not go wrong here.

docs/cuda-allocator.md lists the bugs, and the tests of those that no job of this module shows.
"""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = {
    "175015": {"inside": 1, "other": 48},
    "161193": {"first": ["outer"], "second": ["inner"], "third": []},
    "146431": {"allocated": 1, "freed": 1, "outside": 4},
    "57571": {"ends": ["out of memory"] * 3, "allocated": 0},
    "123548": {"most_mib": 32, "kept": 1},
    "153571": {"heard": True, "more": False, "frames": [False], "alive": 4},
    "108907": {"allocated": True, "freed": True, "nowhere": False,
               "history": ["alloc", "free_completed", "free_requested", "segment_map"]},
}


@pytest.mark.parametrize("bug", EXPECTED)
def test_a_known_bug(jobs, bug):
    environ = ()
    if bug == "123548":
        environ = (("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:20,expandable_segments:True"),)
    found = jobs.json("known_bug_jobs.py", bug, budget="64MiB", memory="1GiB", touch=False,
                      late="asked", environ=environ)
    assert found == {**EXPECTED[bug], "misuses": []}


def test_the_table_names_every_test():
    text = (ROOT / "docs" / "cuda-allocator.md").read_text()
    section = text.split("## Bugs of other allocators")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", section, re.MULTILINE)[2:]
    named = {bug for _, test in rows for bug in re.findall(r"test_a_known_bug\[(\d+)\]", test)}
    assert named == set(EXPECTED)
    titles = subprocess.run(["grep", "-rhoE", 'TEST_CASE\\("[^"]+"', ROOT / "tests"],
                            capture_output=True, text=True, check=True).stdout
    for _, test in rows:
        for title in re.findall(r'"([^"]+)"', test):
            assert f'TEST_CASE("{title}"' in titles, title
