"""The tests of the stand-in device start its jobs from a clean environment."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

for _name in [name for name in os.environ if name.startswith(("TIDEPOOL_", "PYTORCH_", "LD_"))]:
    if _name not in ("TIDEPOOL_FULL", "TIDEPOOL_SHARD", "LD_LIBRARY_PATH"):
        del os.environ[_name]
