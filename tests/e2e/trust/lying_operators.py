"""Custom operators that do more, or less, than their schemas say: each lies in its own way.

All of them say that they double their operand. `LIES` has them by name; `new_step()` is what the
job does between two steps, which some of them depend on.
"""

import queue
import random
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

_library = torch.library.Library("lying", "DEF")
_random = random.Random(0)
_calls = {"hidden_state": 0, "one_in_a_thousand": 0}
_factor = 2.0
_log: list[int] = []
_kept: list[Tensor] = []
_buffers: dict[tuple, Tensor] = {}
_table = torch.full((1,), 2.0)
_file = tempfile.TemporaryFile()  # noqa: SIM115  it is open as long as the operators are there
_pool = ThreadPoolExecutor(1)
_late: queue.Queue = queue.Queue()
_written: queue.Queue = queue.Queue()
_pending: list[Tensor] = []


def new_step() -> None:
    """Change what the job's own code changes from step to step."""
    global _factor
    _factor += 1.0


def hidden_write(x):
    result = x * 2
    x.add_(1)
    return result


def hidden_state(x):
    _calls["hidden_state"] += 1
    return x * 2 + _calls["hidden_state"]


def one_in_a_thousand(x):
    _calls["one_in_a_thousand"] += 1
    return x * 2 + (_calls["one_in_a_thousand"] % 1000 == 0)


def _write_late():
    while (tensor := _late.get()) is not None:
        tensor.add_(1)
        _written.put(None)


def late_write(x):
    """Have a thread write into the operand of the call before."""
    if not _pending:
        threading.Thread(target=_write_late, daemon=True).start()
    else:
        _late.put(_pending.pop())
        _written.get()
    _pending.append(x)
    return x * 2


def alias(x):
    return x.detach()


def hidden_random(x):
    return x * 2 + _random.random()


def reads_a_global(x):
    return x * _factor


def reads_a_tensor(x):
    return x * _table


def appends_to_a_global(x):
    _log.append(len(_log))
    return x * 2


def writes_a_file(x):
    _file.write(b"called\n")
    return x * 2


def keeps_memory(x):
    _kept.append(torch.empty_like(x))
    del _kept[:-3]
    return x * 2


def shares_a_buffer(x):
    buffer = _buffers.setdefault(tuple(x.shape), torch.empty_like(x))
    torch.mul(x, 2, out=buffer)
    return buffer


def waits_for_a_thread(x):
    return _pool.submit(torch.mul, x, 2).result()


def changes_a_switch(x):
    torch.set_float32_matmul_precision("medium")
    return x * 2


def depends_on_the_address(x):
    return x * 2 + (x.data_ptr() >> 6) % 1021


LIES = {each.__name__: each for each in (
    hidden_write, hidden_state, one_in_a_thousand, late_write, alias, hidden_random, reads_a_global,
    reads_a_tensor, appends_to_a_global, writes_a_file, keeps_memory, shares_a_buffer,
    waits_for_a_thread, changes_a_switch, depends_on_the_address)}
for _name, _function in LIES.items():
    _library.define(f"{_name}(Tensor x) -> Tensor")
    _library.impl(_name, _function, "CPU")
