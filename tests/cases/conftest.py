"""Fixtures of the cases: as for the end-to-end tests, jobs run in this same Python."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
