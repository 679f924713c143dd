"""Under Tidepool torch.compile cuts functions into the graphs that it makes without it."""

import sys
from pathlib import Path

import harness
import pytest

JOB = str(Path(__file__).with_name("compiled_graphs_job.py"))


@pytest.mark.torch_floor
def test_functions_are_cut_into_the_same_graphs():
    job = [sys.executable, JOB]
    harness.check_same_output(job, [*harness.attached("64MiB"), *job])
