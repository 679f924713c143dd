"""A profiler shows each replay as one range, named after its operator, and nothing inside of it."""

import json
import sys

import harness
import pytest

JOB = """
import json, sys, torch

torch.manual_seed(1)
x = torch.randn(64, 64)
if sys.argv[1] == "torch":
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
else:
    profile = torch.autograd.profiler.profile()
before = torch.tanh(x) + 1
before.sum().item()
with profile as found:
    y = torch.tanh(x) * 2
    z = torch.sin(y) + y.mm(y)
    total = z.sum().item()
events = found.events() if sys.argv[1] == "torch" else found.function_events
ranges = [event for event in events if event.name.startswith("tidepool::")]
inside = [event.name for event in events
          if event.cpu_parent and event.cpu_parent.name.startswith("tidepool::")]
print(json.dumps([total, sorted({event.name for event in ranges}), inside,
                  sum(event.name == "aten::tanh" for event in events)]))
"""


@pytest.mark.torch_floor
@pytest.mark.parametrize("kind", ["torch", "autograd"])
def test_replays_are_ranges_of_ours(tmp_path, kind):
    (tmp_path / "job.py").write_text(JOB)
    command = [sys.executable, str(tmp_path / "job.py"), kind]
    plain = json.loads(harness.run(command).stdout)
    done = harness.run([*harness.attached(harness.AMPLE, "--chaos=op"), *command])
    assert done.returncode == 0, done.stderr
    total, ranges, inside, calls = json.loads(done.stdout)
    assert total == plain[0] and calls == plain[3] == 1
    assert "tidepool::replay aten::tanh" in ranges and "tidepool::replay aten::mm" in ranges
    assert inside == [] and plain[1:3] == [[], []]
