"""The page on what is supported explains every reason that statistics give."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_reason_is_explained():
    labels = (ROOT / "remat" / "lineage" / "labels.cpp").read_text()
    array = labels[labels.index("kRootReasonNames"):].split("};")[0]
    reasons = set(re.findall(r'"(\w+)"', array)) - {"none"}
    page = (ROOT / "docs" / "supported.md").read_text()
    section = page.split("### What is kept, by reason")[1].split("\n## ")[0]
    keys = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", keys)) == reasons
