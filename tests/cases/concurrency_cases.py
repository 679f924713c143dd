"""Threads, signals and processes around operators."""

import contextlib
import ctypes
import signal
import threading

import torch
import torch.nn.functional as F
from numeric_state_cases import said_by_child
from torch import nn
from torch.utils.data import DataLoader, Dataset


def in_threads(work, count):
    """Run work(k) in threads; return the results in order, and raise what one of them raised."""
    results, errors = [None] * count, []

    def run(k):
        try:
            results[k] = work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def train(seed, steps=6):
    """Train a network whose random numbers are its own, and return losses and parameters."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape):
        return torch.randn(*shape, generator=generator)

    weights = [noise(16, 32).requires_grad_(), noise(32, 32).requires_grad_(),
               noise(32, 4).requires_grad_()]
    optimizer = torch.optim.Adam(weights, lr=0.05)
    losses = []
    for _ in range(steps):
        hidden = noise(24, 16)
        for weight in weights[:-1]:
            hidden = F.layer_norm(torch.tanh(hidden @ weight), (32,))
            hidden = hidden * torch.bernoulli(torch.full_like(hidden, 0.8), generator=generator)
        loss = (hidden @ weights[-1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, weights


def case_two_threads_train():
    return in_threads(train, 2)


def case_four_threads_train():
    return in_threads(train, 4)


def case_threads_share_tensors():
    """Results made by one thread are read by others while it goes on."""
    made = [torch.randn(40, 40) * 2 for _ in range(6)]
    made = [m.sin() @ m.t() for m in made]

    def read(k):
        total = torch.zeros(40)
        for n in range(30):
            total = total + made[(n + k) % 6].sum(0) * (n + 1)
        return total

    return in_threads(read, 4), made


def case_writer_against_readers():
    """What was computed from a tensor must not change when another thread writes the tensor."""
    roots = [torch.full((64,), float(k)) for k in range(4)]
    derived = [(root * 3 + 1).sqrt() for root in roots]
    expected = [(3.0 * k + 1) ** 0.5 for k in range(4)]
    wrong = []

    def work(k):
        if k == 0:
            for n in range(60):
                roots[n % 4].add_(n)
        else:
            for n in range(60):
                value = derived[(n + k) % 4]
                if not torch.allclose(value, torch.tensor(expected[(n + k) % 4])):
                    wrong.append((k, n))

    in_threads(work, 3)
    return wrong, derived, roots


def case_storages_die_on_other_threads():
    queue = [[torch.randn(50) * 2 for _ in range(4)] for _ in range(30)]
    kept = [[t.sin() for t in each] for each in queue]

    def drop(k):
        for _ in range(15):
            queue.pop().clear()
            kept[k][0].sum()  # reads beside the other's deaths
        return k

    done = in_threads(drop, 2)
    return done, kept


def case_thread_of_the_c_library():
    """A thread that Python did not start, as those of other libraries."""
    x = torch.randn(60) * 2
    results = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    def work(_):
        y = x.sin() + 1
        z = y * 2
        results.extend([y, z, y + z])
        return

    libc = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, work, None) == 0
    libc.pthread_join(thread, None)
    return results, [r * 1 for r in results]


def case_interrupted():
    """KeyboardInterrupt anywhere leaves tensors usable and contents right."""
    made = [torch.randn(30, 30) * 2]
    for _ in range(20):
        made.append(torch.tanh(made[-1] @ made[0]))
    caught = 0

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for n in range(40):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003 + 0.0001 * (n % 7))
                while True:
                    sum(m.sum() for m in made)
            except KeyboardInterrupt:
                caught += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return made, caught


class Evicted(Dataset):
    """Samples from tensors that may be evicted when a worker starts."""

    def __init__(self):
        self.table = (torch.randn(32, 8) * 2).sin()
        self.derived = [self.table * k for k in range(3)]

    def __len__(self):
        return 32

    def __getitem__(self, k):
        return self.table[k] + self.derived[k % 3][k], (self.derived[2][k] * 2).sum()


def loaded(context, workers=1):  # which start PyTorch anew, but where they are forked
    dataset = Evicted()
    loader = DataLoader(dataset, batch_size=8, num_workers=workers,
                        multiprocessing_context=context)
    batches = [[part * 1 for part in batch] for batch in loader]
    return batches, dataset.table, dataset.derived


def case_workers_forked():
    return loaded("fork", workers=2)


def case_workers_spawned():
    return loaded("spawn")


def case_workers_of_a_fork_server():
    return loaded("forkserver")


def case_failing_hook_in_backward():
    """An exception in the middle of backward; the next step is as if nothing had been."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    x = torch.randn(10, 8)
    y = model(x)

    def fail(gradient):
        raise ValueError("the job's own")

    handle = y.register_hook(fail)
    with contextlib.suppress(ValueError):
        y.sum().backward()
    handle.remove()
    model.zero_grad()
    model(x).square().sum().backward()
    return y, [p.grad for p in model.parameters()]


def case_a_result_dies_while_the_other_is_restored():
    x = torch.arange(200_000, dtype=torch.float64).sin()
    results = []
    for wait in (0.0005, 0.002, 0.005, 0.01, 0.02):
        values, places = torch.sort(x)
        held = [places]
        del places
        dropping = threading.Timer(wait, held.clear)
        dropping.start()
        results += [values[:1000].sum(), values[::97].clone()]
        dropping.join()
    return results


def case_threads_of_a_forked_child():
    """Each reads what its parent's eviction has taken, at the same time as the others."""
    x = torch.randn(300_000)
    made = [torch.sort(x * k)[0] for k in range(1, 5)]
    said = said_by_child(
        lambda: repr(in_threads(lambda k: float(made[k][:1000].sum()), len(made))))
    return said, made


def case_gradients_on_several_threads():
    x = torch.randn(20, 20, requires_grad=True)
    parts = in_threads(lambda k: (x * (k + 1)).sin().sum(), 3)
    in_threads(lambda k: parts[k].backward(), 3)
    return parts, (x.grad * 1).round(decimals=3)
