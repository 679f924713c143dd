"""Jobs that close descriptors that are not theirs, as daemons do, keep their own files."""

import sys

import harness
import pytest

# What it opens then gets the numbers of all that there was, at its start and above.
JOB = """
import os
import sys
import torch
torch.manual_seed(0)
weight = torch.randn(512, 512)
def compute(steps):
    global weight
    for _ in range(steps):
        made = [torch.relu(torch.randn(256, 512) @ weight) for _ in range(4)]
        weight = weight - 1e-4 * sum(each.sum(0) for each in made)
    print(weight.double().sum().item())
compute(3)
os.closerange(3, 1024)
own = [os.open(f"{sys.argv[1]}/own.{k}", os.O_CREAT | os.O_TRUNC | os.O_RDWR) for k in range(100)]
for descriptor in own:
    os.write(descriptor, b"x" * 5000)
compute(300)
print([os.pread(descriptor, 1 << 20, 0) == b"x" * 5000 for descriptor in own])
"""


@pytest.mark.torch_floor
@pytest.mark.parametrize("options", [
    ("--offload", f"file:{harness.HERE}:256MiB", "--chaos=offload:2"), ("--record", "record"),
    ("--trace", "trace.jsonl"), ("--trace", "trace.jsonl.gz")], ids=lambda each: each[-1])
def test_a_jobs_own_files_are_left_alone(tmp_path, options):
    job = [sys.executable, "-c", JOB, str(tmp_path)]
    options = [str(tmp_path / each) if each.startswith(("record", "trace")) else each
               for each in options]
    harness.check_same_output(job, [*harness.attached("64MiB", *options), *job])
    for path in tmp_path.glob("own.*"):
        assert path.read_bytes() == b"x" * 5000
