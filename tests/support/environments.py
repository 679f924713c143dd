"""Environments for the jobs of tests and benchmarks, free of the settings of whoever runs these."""

import os

# Without a buffer, a line is written in pieces, between which another process may print.
SETTINGS = ("TIDEPOOL_", "PYTORCH_", "LD_PRELOAD", "PYTHONUNBUFFERED")
OF_TESTS = ("TIDEPOOL_FULL", "TIDEPOOL_SHARD")  # which selection.py reads


def clean_environment(*, preload: bool = False, **extra: str) -> dict[str, str]:
    """Return this process's environment without settings, plus `extra`.

    Args:
        preload: whether LD_PRELOAD stays, for what may run on the stand-in device as it does on a
            GPU.
        extra: variables to add.
    """
    kept = {name: value for name, value in os.environ.items()
            if name in OF_TESTS or not name.startswith(SETTINGS) or (preload and name[:3] == "LD_")}
    return {**kept, **extra}
