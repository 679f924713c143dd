"""What an optimizer updates stays, unless it is all of its own making; and only in its step."""

import harness
import pytest

JOB = """
import torch
from tidepool.job import _job
state = _job.current().plugin.state
states = []

outside = torch.ones(1000) * 3

def compute(factor=outside):
    made = (torch.ones(1000) * 2).mul_(factor)
    states.append(state(made.untyped_storage()._cdata))
    return made.sum()

class Stepping(torch.optim.SGD):
    def step(self, closure=None):
        loss = super().step(closure)
        compute()
        compute(torch.ones(1000) * 3)
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
    assert said == [f"{[WITH_LINEAGE] * 2 + [ROOT] + [WITH_LINEAGE] * 3} True"]
