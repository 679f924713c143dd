"""In a closure, and after a step that raised, what is computed can be evicted as anywhere else."""

import harness
import pytest

JOB = """
import torch
from tidepool.job import _job
state = _job.current().plugin.state
states = []

def compute():
    made = (torch.ones(1000) * 2).relu_()
    states.append(state(made.untyped_storage()._cdata))
    return made.sum()

class Stepping(torch.optim.SGD):
    def step(self, closure=None):
        loss = super().step(closure)
        compute()
        return loss

weight = torch.nn.Parameter(torch.ones(3))
weight.grad = torch.ones(3)
optimizer = Stepping([weight], 0.1)
compute()
optimizer.step(compute)
try:
    optimizer.step(lambda: 1 / 0)
except ZeroDivisionError:
    compute()
before = weight.detach().clone()
torch.compile(torch.optim.SGD([weight], 0.1).step, backend="eager")()
compute()
print(states, torch.equal(weight.detach(), before - 0.1 * weight.grad))
"""
ROOT, WITH_LINEAGE = 1, 2


@pytest.mark.torch_floor
def test_only_what_the_optimizer_writes_stays():
    said = harness.lines_of(JOB)
    assert said == [f"{[WITH_LINEAGE, WITH_LINEAGE, ROOT, WITH_LINEAGE, WITH_LINEAGE]} True"]
