"""The manual's page of settings is made from the package's own list of them."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs"))

import generate_settings  # noqa: E402
from tidepool.settings import _catalog  # noqa: E402


def test_the_page_is_current():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == generate_settings.page(), "run python3 docs/generate_settings.py"


def test_every_setting_is_on_it():
    sections = [line[3:] for line in generate_settings.page().splitlines()
                if line.startswith("## ")]
    assert tuple(sections) == _catalog.KEYS
