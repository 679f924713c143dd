"""Modes of the job's see no question that Tidepool asks of tensors."""

import sys

import harness
import pytest

JOB = '''
import torch
from torch.overrides import TorchFunctionMode
class Strict(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in ("__get__", "untyped_storage"):
            raise RuntimeError(f"{function} is not allowed here")
        seen.append(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))
scripted = torch.jit.CompilationUnit("""
def scripted(x):
    return str(x.sum()), x * 2
""").scripted
x = torch.ones(3) * 2
state = torch.get_rng_state()
for call in (lambda: torch.default_generator.set_state(state),
             lambda: torch.Generator().set_state(state), lambda: scripted(x),
             lambda: torch._C._to_dlpack(x), lambda: torch._C._data_address(x) != 0,
             lambda: x.tolist(), lambda: x.numpy(), lambda: x.data_ptr() % 16,
             lambda: x.untyped_storage().data_ptr() != 0):
    seen = []
    try:
        with Strict():
            made = call()
        print(type(made).__name__, seen)
    except Exception as error:
        print(type(error).__name__, seen)
throws = getattr(torch.storage, "_throws_on_data_ptr_access", lambda storage: False)
y = torch.randn(1000) * 2
z = y + 1
print(throws(y.untyped_storage()), throws(z.untyped_storage()))
'''


@pytest.mark.torch_floor
def test_modes_see_what_they_saw():
    job = [sys.executable, "-W", "ignore", "-c", JOB]
    harness.check_same_output(job, [*harness.attached("64MiB", "--chaos=op"), *job])
