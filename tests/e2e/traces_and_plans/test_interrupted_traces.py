"""What handlers of signals raise reaches a job that has a trace, too."""

import sys

import harness
import pytest

# The handler is called in the middle of operators of which a place is noted, or in the loop behind.
JOB = """
import signal
import torch
torch.manual_seed(0)
class Late(Exception):
    pass
fired = False
def late(number, frame):
    global fired
    fired = True
    raise Late
signal.signal(signal.SIGALRM, late)
weight = torch.randn(300, 300, requires_grad=True)
raised = 0
for attempt in range(10):
    x, fired = torch.randn(300, 300), False
    for _ in range(40):
        x = torch.tanh(x @ weight)
    loss = x.sum()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        loss.backward()
        while not fired:
            pass
    except Late:
        raised += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
print(raised)
"""


@pytest.mark.torch_floor
def test_handlers_may_raise(tmp_path):
    job = [sys.executable, "-c", JOB]
    harness.check_same_output(job, [
        *harness.attached("256MiB", "--trace", str(tmp_path / "trace.jsonl")), *job])
