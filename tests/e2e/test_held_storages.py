"""What a reader holds is not evicted, and can be when it is let go."""

import sys

import harness

JOB = """
import torch
from tidepool import _job
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
