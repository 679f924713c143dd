"""Functions of extension modules get the bytes of tensors that were evicted, and may write them."""

import sys
from pathlib import Path

import harness
import pytest

JOB = str(Path(__file__).with_name("extension_job.py"))


@pytest.mark.torch_floor
def test_an_extension_gets_what_was_evicted(tmp_path):
    job = [sys.executable, JOB, str(tmp_path)]
    fronts = [harness.attached("64MiB", *options) for options in (
        ("--chaos=op",), ("--offload", f"file:{harness.HERE}:256MiB", "--chaos=offload:2"))]
    jobs = [[*front, *job] for front in fronts] + [[*job, "enable"]]
    for found in harness.check_same_output(job, *jobs):
        assert " 0 evictions" not in found.stderr
