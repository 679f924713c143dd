"""Fixtures of the end-to-end tests. They need `./dev build`: jobs run in this same Python."""

import os

import harness
import lab as labs
import pytest


@pytest.fixture(scope="session")
def lab():
    """Runs jobs and remembers what plain runs gave."""
    made = labs.Lab(workers=os.cpu_count() or 1)
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def _tidepool_is_there():
    done = harness.run([*harness.attached("1GiB"), "true"])
    assert done.returncode == 0, f"run `./dev build` first: {done.stderr}"
