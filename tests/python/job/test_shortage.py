"""Out-of-memory errors as values."""

from tidepool import shortage

TEXT = """\
CUDA out of memory. Something of PyTorch's. out of memory: 512.00 KiB (524288 bytes) were asked \
for, under a budget of 6.00 MiB (6291456 bytes).
Held from the device: 5.69 MiB (5963776 bytes); in use: 5.57 MiB (5836288 bytes); freed, but still \
used on other streams: 512 bytes.
The device has given no more than 5.75 MiB (6029312 bytes): others use the rest.
Cannot be evicted now: 5.55 MiB (5822784 bytes):
  parameters: 5.00 MiB (5242880 bytes)
  operands of aten::addmm: 100 bytes
  results, tensors: whose address left: 566.41 KiB (579804 bytes)
Can be evicted: 13.19 KiB (13504 bytes):
  results that can be computed again: 13.19 KiB (13504 bytes)
The largest request that could have been served: 320.00 KiB (327680 bytes), because what stays \
lies between what is free and what can be evicted.
No budget below 6.12 MiB (6422528 bytes) can serve this one, at this moment.
A budget to try: at least 6.97 MiB (7311965 bytes). In simulation the job gets past this request.
Exception raised from somewhere: 3 bytes"""


def test_every_figure_is_there():
    found = shortage(RuntimeError(TEXT))
    assert (found.asked_bytes, found.budget_bytes) == (524288, 6291456)
    assert (found.held_bytes, found.used_bytes) == (5963776, 5836288)
    assert found.pinned == {"parameters": 5242880, "operands of aten::addmm": 100,
                            "results, tensors: whose address left": 579804}
    assert found.pinned_bytes == 5822784
    assert found.evictable == {"results that can be computed again": 13504}
    assert (found.largest_servable_bytes, found.least_budget_bytes) == (327680, 6422528)
    assert (found.budget_to_try_bytes, found.device_bytes) == (7311965, 6029312)


def test_errors_of_others_are_none():
    assert shortage(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")) is None
    short = shortage(RuntimeError("\n".join(TEXT.splitlines()[:2])))
    assert short.pinned == {} and short.budget_to_try_bytes is None
