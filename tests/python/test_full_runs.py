"""What asks for a full run reaches the tests of every folder."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = "import os, conftest; print(sorted(n for n in os.environ if n.startswith('TIDEPOOL_')))"


def test_the_fixtures_drop_settings_but_not_the_wish_for_a_full_run():
    environ = {**os.environ, "PYTHONPATH": str(TESTS / "support"), "TIDEPOOL_FULL": "1",
               "TIDEPOOL_BUDGET": "1GiB"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=TESTS, env=environ, text=True,
                          capture_output=True, check=True)
    assert done.stdout.strip() == "['TIDEPOOL_FULL']"
