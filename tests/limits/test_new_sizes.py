"""Jobs whose steps change their size: their sizes, and the tables that are made of them."""

import subprocess
import sys

import pytest
from limits_support import ROOT, TIMEOUT_SECONDS
from selection import FULL

sys.path.insert(0, str(ROOT / "bench" / "jobs"))
from sized_job import KINDS, NETWORKS, PACKED_WORDS, packed_size, sizes


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_all_different_and_the_same_in_each_run(kind):
    draw_size, _ = KINDS[kind]
    found = sizes(draw_size, 60)
    assert len(set(found)) == 60
    assert found == sizes(draw_size, 60)
    assert sum(name.startswith(kind) for name in NETWORKS) == 4


def test_packed_texts_have_about_as_many_words():
    words = [rows * length for rows, length in sizes(packed_size, 60)]
    assert max(words) <= PACKED_WORDS
    assert min(words) > 0.8 * PACKED_WORDS


@pytest.mark.skipif(not FULL, reason="takes a minute")
def test_each_size_is_recorded_twice_and_simulated_under_all_budgets(tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "new_sizes.py"), "coco_unet",
                           "--sizes", "4", "--folder", str(tmp_path)], text=True,
                          capture_output=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| coco_unet")]
    *budgets, foresight = rows
    assert [row.split(" | ")[1] for row in budgets] == ["0.9", "0.8", "0.7", "0.6", "0.5", "0.4"]
    first, second = (float(budgets[0].split(" | ")[column]) for column in (2, 3))
    assert 1 <= first < 1.1
    assert first == pytest.approx(second, rel=0.05)
    assert len(foresight.split(" | ")) == 5  # of two sizes, and of three
