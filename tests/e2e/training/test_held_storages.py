"""What a reader holds is not evicted, and can be when it is let go."""

import harness
import pytest

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
    said = harness.lines_of(JOB)
    assert said[0] == f"{[RESIDENT, 0, 0, 1, EVICTED]} True"


# Given to each of the programs: the state of a tensor's storage, and its eviction.
HANDLES = """
import torch
from tidepool.job import _job
plugin = _job.current().plugin
def state(tensor):
    return plugin.state(tensor.untyped_storage()._cdata)
def evict(tensor):
    return plugin.evict(tensor.untyped_storage()._cdata)
"""
FALLBACK_JOB = HANDLES + """
def states(*tensors):
    return [state(tensor) for tensor in tensors]
before = torch.ones(1000) * 2
print(states(before))
library = torch.library.Library("_", "IMPL")
library.fallback(lambda operator, *args, **kwargs: None, "PrivateUse1")
print(states(before, torch.ones(1000) * 2))
"""
ROOT = 1


def test_a_kernel_for_all_operators_ends_recording():
    said = harness.lines_of(FALLBACK_JOB)
    assert said[:2] == [f"{[RESIDENT]}", f"{[ROOT, ROOT]}"]


ADDRESS_JOB = HANDLES + """
import ctypes, pickle
base = torch.ones(1000)
in_place, away, view, seen = base + 1, base + 2, (base + 3).view(10, 100)[4, 7:], base + 4
assert evict(away)
assert evict(view)
addresses = [each.data_ptr() for each in (in_place, away, view)]
print([state(each) for each in (in_place, away, view)])
print(addresses == [each.data_ptr() for each in (in_place, away, view)],
      view.data_ptr() == view.untyped_storage().data_ptr() + 4 * (400 + 7))
# What reads a fixed parameter is made again from what is there then.
weight = torch.nn.Parameter(torch.ones(1000))
product = (weight * 3).detach()
assert evict(product)
address = weight.data_ptr()
ctypes.memset(address, 0, 4000)
print(state(weight), product.sum().item(), weight.data_ptr() == address)
class Seen(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        calls.append(function.__name__)
        return function(*args, **(kwargs or {}))
calls = []
with Seen():
    seen.data_ptr()
class Labelled(torch.Tensor):
    pass
labelled = (base + 5).as_subclass(Labelled)
print(calls, state(seen), labelled.data_ptr() == labelled.untyped_storage().data_ptr(),
      torch.empty(0).data_ptr(), torch.empty(3, device="meta").data_ptr())
for wrong in (lambda: torch.vmap(lambda each: torch.tensor(each.data_ptr()))(base),
              lambda: torch.ones(2).to_sparse().data_ptr(), lambda: base.data_ptr(1)):
    try:
        wrong()
        print("no error")
    except (RuntimeError, TypeError) as error:
        print(type(error).__name__)
print(pickle.loads(pickle.dumps(torch.Tensor.data_ptr)) is torch.Tensor.data_ptr,
      type(torch.Tensor.data_ptr).__name__)
"""
ESCAPED, ROOT = 4, 1


@pytest.mark.torch_floor
def test_an_address_that_is_asked_for_stays():
    said = harness.lines_of(ADDRESS_JOB)
    assert said == [
        f"{[ESCAPED] * 3}", "True True", f"{ROOT} 3000.0 True",
        f"['data_ptr'] {ESCAPED} True 0 0", "RuntimeError", "RuntimeError", "TypeError",
        "True method_descriptor"]


ALIGNMENT_JOB = HANDLES + """
import operator
def is_aligned(tensor):
    return tensor.data_ptr() % 16 == 0
base = torch.ones(1000)
for _ in range(30):  # Python specializes what runs often
    flat = base * 2
    aligned = is_aligned(flat[:512]) and is_aligned(flat)
print(aligned, state(flat))
part = flat[:512] * 3
print(evict(part), part.sum().item())
flat += 1
print((flat[:512] * 3).sum().item(), is_aligned(flat), state(flat))
# What asks in C may keep what it gets, whatever its caller makes of it.
flat = base * 2
print(operator.methodcaller("data_ptr")(flat) % 16, state(flat))
evicted = base * 2
evict(evicted)
print(is_aligned(evicted), state(evicted), evicted.sum().item())
"""


@pytest.mark.torch_floor
def test_who_asks_for_an_alignment_keeps_no_address():
    said = harness.lines_of(ALIGNMENT_JOB)
    assert said == [f"True {ROOT}", "1 3072.0", f"4608.0 True {ROOT}", f"0 {ESCAPED}",
                    f"True {ROOT} 2000.0"]


COMPARED_JOB = HANDLES + """
weight = torch.nn.Parameter(torch.ones(1000))
for _ in range(3):  # as libraries look for tied weights
    addresses = {weight.data_ptr(), weight.untyped_storage().data_ptr()}
    results = [weight * k for k in range(3)]
print(len(addresses), state(weight), [state(result) for result in results])
"""


@pytest.mark.torch_floor
def test_addresses_that_are_compared_again_and_again_let_results_leave():
    said = harness.lines_of(COMPARED_JOB)
    assert said == [f"1 {ROOT} {[RESIDENT] * 3}"]


KEPT_ADDRESS_JOB = HANDLES + """
import ctypes
import tidepool
weight = torch.nn.Parameter(torch.randn(4000))
values = (ctypes.c_float * 4000).from_address(weight.data_ptr())  # asked for once, and kept
def write_all():
    for k in range(4000):
        values[k] += 1
with torch.no_grad():
    first, away, expected = weight * 2, weight * 2, (weight * 2).tolist()
    evict(away)
    write_all()
    second, expected_second = weight * 3, [value * 3 for value in weight.tolist()]
    evicted = evict(first)
    print(evicted, first.tolist() == expected, second.sum().item() == torch.tensor(
        expected_second).sum().item())
    try:
        print(away.sum())
    except RuntimeError as error:
        print("written since then" in str(error))
    # From then on a single element is noticed, too; also where only the restoration can.
    third, expected = weight * 4, (weight * 4).tolist()
    values[17] += 1
    fourth = weight * 5
    print(evict(third), third.tolist() == expected, evict(fourth))
    values[18] += 1
    try:
        print(fourth.sum())
    except RuntimeError as error:
        print("written since then" in str(error))
    # Who asks for the address before each write has everything restored in time.
    fifth, expected = weight * 6, (weight * 6).tolist()
    print(evict(fifth))
    weight.data_ptr()
    write_all()
    print(fifth.tolist() == expected, (weight * 7)[18].equal(torch.tensor(values[18]) * 7))
print(tidepool.stats()["devices"]["cpu"]["unseen_writes"])
"""


@pytest.mark.torch_floor
def test_writes_through_an_address_that_was_kept_are_noticed():
    said = harness.lines_of(KEPT_ADDRESS_JOB)
    assert said == ["0 True True", "True", "0 True 1", "True", "1", "True True", "3"]
