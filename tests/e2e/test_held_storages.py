"""What a reader holds is not evicted, and can be when it is let go."""

import sys

import harness

JOB = """
import torch
from tidepool.job import _job
plugin = _job.current().plugin
evict, state = plugin.library.tidepool_evict, plugin.library.tidepool_state
tensor = torch.ones(1000) * 2
storage = tensor.untyped_storage()._cdata
evict(storage)
states = []
with plugin.holding([storage, 0, torch.empty(0).untyped_storage()._cdata]):
    with plugin.holding([storage, storage]):
        states += [state(storage), evict(storage)]
    states.append(evict(storage))
states += [evict(storage), state(storage)]
print(states, tensor.tolist() == [2.0] * 1000)
"""
RESIDENT, EVICTED = 2, 3


def test_what_is_held_stays():
    done = harness.run([sys.executable, "-m", "tidepool", "run", "--device", "cpu", "--budget",
                        "64MiB", "--", sys.executable, "-c", JOB])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == f"{[RESIDENT, 0, 0, 1, EVICTED]} True"


FALLBACK_JOB = """
import torch
from tidepool.job import _job
state = _job.current().plugin.state
def states(*tensors):
    return [state(tensor.untyped_storage()._cdata) for tensor in tensors]
before = torch.ones(1000) * 2
print(states(before))
library = torch.library.Library("_", "IMPL")
library.fallback(lambda operator, *args, **kwargs: None, "PrivateUse1")
print(states(before, torch.ones(1000) * 2))
"""
ROOT = 1


def test_a_kernel_for_all_operators_ends_recording():
    done = harness.run([sys.executable, "-m", "tidepool", "run", "--device", "cpu", "--budget",
                        "64MiB", "--", sys.executable, "-c", FALLBACK_JOB])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == [f"{[RESIDENT]}", f"{[ROOT, ROOT]}"]
