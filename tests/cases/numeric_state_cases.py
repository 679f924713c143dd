"""Switches that decide bits, changed between the recorded call and its replay.

The replay must use the old ones and leave the new ones.
"""

import ctypes
import hashlib
import os
import select
import signal
import threading

import torch
import torch.nn.functional as F
from torch import nn


class Switch:
    """A setting of PyTorch: how to get and to put it."""

    def __init__(self, get, put):
        self.get, self.put = get, put


def made_and_read(make, change, switch):
    """Make tensors, change a switch, read them; return contents and the switch, and put it back."""
    before = switch.get()
    try:
        made = make()
        change()
        read = [each * 1 for each in made] + [each.sum() for each in made]
        return read, [each.clone() for each in made], switch.get()
    finally:
        switch.put(before)


def matrices(dtype=torch.float32):
    return torch.randn(96, 96, dtype=dtype), torch.randn(96, 96, dtype=dtype)


def case_default_dtype():
    switch = Switch(torch.get_default_dtype, torch.set_default_dtype)
    return made_and_read(lambda: [torch.arange(50) / 3, torch.arange(50) * 0.5],
                         lambda: torch.set_default_dtype(torch.float64), switch)


def case_threads():
    switch = Switch(torch.get_num_threads, torch.set_num_threads)

    def make():
        torch.set_num_threads(2)
        x = torch.randn(4, 16, 40, 40)
        w = torch.randn(16, 16, 3, 3, requires_grad=True)
        F.conv2d(x, w, padding=1).square().sum().backward()
        y = torch.randn(300_000)
        return [w.grad, y.sum(), F.layer_norm(torch.randn(64, 512), (512,))]

    return made_and_read(make, lambda: torch.set_num_threads(1), switch)


def case_threads_of_openmp_alone():
    """As threadpoolctl sets them: MKL has a number of its own, which replays leave as it is."""
    openmp = ctypes.CDLL(None)
    x, w = torch.randn(64, 5000).exp().sin(), torch.randn(5000, 64)
    before = x @ w
    openmp.omp_set_num_threads(2)
    try:
        within = x.cos() @ w
    finally:
        openmp.omp_set_num_threads(1)
    return before, within, (x * 1.5) @ w, before * 1, within * 1


def case_threads_of_one_that_begins_with_a_replay():
    """A thread chooses its number with its first kernel, which is a replay in this one."""
    x, w, many = torch.randn(64, 5000).exp().sin(), torch.randn(5000, 64), torch.randn(3_000_001)
    results = []
    worker = threading.Thread(target=lambda: results.extend((x.sum(), x @ w, many.sum())))
    worker.start()
    worker.join()
    return results


def case_threads_of_one_whose_number_is_that_of_the_replay_by_chance():
    """A new thread has OpenMP's own number until its first kernel, whatever PyTorch's is."""
    openmp = ctypes.CDLL(None)
    numbers = []
    asking = threading.Thread(target=lambda: numbers.append(openmp.omp_get_max_threads()))
    asking.start()
    asking.join()
    x = torch.from_numpy(torch.randn(600, 600).numpy().copy())  # it stays
    before = torch.get_num_threads()
    torch.set_num_threads(numbers[0])
    try:
        made = [x.sum(), x.var(), x.norm()]
    finally:
        torch.set_num_threads(2 if numbers[0] == 1 else 1)
    read = []
    reading = threading.Thread(target=lambda: read.extend(each.item() for each in made))
    reading.start()
    reading.join()
    torch.set_num_threads(before)
    return read


def case_deterministic():
    switch = Switch(torch.are_deterministic_algorithms_enabled,
                    torch.use_deterministic_algorithms)

    def make():
        index = torch.randint(0, 10, (1000,))
        return [torch.zeros(10).index_add_(0, index, torch.randn(1000)),
                torch.zeros(10).scatter_add_(0, index, torch.randn(1000)),
                torch.zeros(10).index_put_((index,), torch.randn(1000), accumulate=True)]

    return made_and_read(make, lambda: torch.use_deterministic_algorithms(True), switch)


def case_matmul_precision():
    switch = Switch(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision)

    def make():
        a, b = matrices()
        return [a @ b, torch.addmm(a, a, b), F.linear(a, b)]

    return made_and_read(make, lambda: torch.set_float32_matmul_precision("medium"), switch)


def case_matmul_precision_was_low():
    switch = Switch(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision)
    torch.set_float32_matmul_precision("medium")
    try:
        def make():
            a, b = matrices()
            return [a @ b, torch.addmm(a, a, b)]

        return made_and_read(make, lambda: torch.set_float32_matmul_precision("highest"), switch)
    finally:
        torch.set_float32_matmul_precision("highest")


def case_precision_of_one_kind():
    """The newer settings refuse to be read through the older ones; they must not disturb us."""
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    try:
        a, b = matrices()
        product = a @ b
        matmul.fp32_precision = "bf16"
        again = a @ b
        matmul.fp32_precision = before
        return product * 1, again * 1, a + b, matmul.fp32_precision
    finally:
        matmul.fp32_precision = before


def case_inherited_precision_stays_inherited():
    """A replay must not turn "as the general setting" into a setting of its own."""
    mkldnn = torch.backends.mkldnn
    before = mkldnn.fp32_precision
    try:
        a, b = matrices()
        c = a @ b
        mkldnn.fp32_precision = "bf16"
        d = (c * 1) @ b
        mkldnn.fp32_precision = before
        e = (d * 1) @ b
        return c, d, e, mkldnn.matmul.fp32_precision, mkldnn.fp32_precision
    finally:
        mkldnn.fp32_precision = before


def case_mkldnn_off():
    switch = Switch(torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled)

    def make():
        x, w = torch.randn(2, 8, 20, 20), torch.randn(8, 8, 3, 3)
        return [F.conv2d(x, w), F.gelu(torch.randn(500)), torch.randn(64, 64) @ torch.randn(64, 64)]

    return made_and_read(make, lambda: torch._C._set_mkldnn_enabled(False), switch)


def case_denormals():
    tiny = torch.full((64,), 1e-38)
    small = tiny * 1e-3
    torch.set_flush_denormal(True)
    try:
        flushed = tiny * 1e-3
        read = small.view(torch.int32) + 0
    finally:
        torch.set_flush_denormal(False)
    kept = tiny * 1e-3
    return small.view(torch.int32), flushed.view(torch.int32), read, kept.view(torch.int32)


def case_autocast():
    a, b = matrices()
    weight = torch.randn(96, 96, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = a @ b
        cached = F.linear(a, weight)
        again = F.linear(inside, weight)
    outside = inside.float() @ b
    with torch.autocast("cpu", dtype=torch.float16):
        half = a @ b
        read = inside * 1
    (cached.float().sum() + again.float().sum()).backward()
    return inside, outside, half, read, weight.grad, torch.is_autocast_enabled("cpu")


def case_autocast_around_a_replay():
    """A replay under autocast must not cast, and must leave nothing in its cache."""
    a, b = matrices()
    weight = torch.randn(96, 96, requires_grad=True)
    product = a @ b
    plain = F.linear(product, weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = F.linear(plain, weight)
        second = F.linear(product, weight)
    (first.float().sum() + second.float().sum()).backward()
    return product, plain, first, second, weight.grad


def case_grad_mode():
    with torch.no_grad():
        x = torch.randn(4, 8, 16)
        gru = torch.nn.GRU(16, 16)
        y, _ = gru(torch.randn(5, 4, 16))
    z, _ = gru(torch.randn(5, 4, 16))
    with torch.no_grad():
        read = y * 1, z * 1
    z.sum().backward()
    return x, y, z, read, [p.grad for p in gru.parameters()], torch.is_grad_enabled()


def case_attention_choice():
    """In inference mode the choice of an attention kernel is inside one operator."""
    with torch.inference_mode():
        q, k, v = (torch.randn(2, 4, 33, 16) for _ in range(3))
        chosen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            read = chosen * 1
            other = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return chosen * 1, read, other * 1


def said_by_child(work):
    """Return the text that work() returns in a forked child; "nothing" if not within 60 s."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, work().encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = os.read(reader, 1 << 16) if select.select([reader], [], [], 60)[0] else b"nothing"
    os.close(reader)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return said.decode()


def hash_in_child(tensor):
    """Return the hash that a forked child reads, on one thread as in a data loader."""
    def read():
        torch.set_num_threads(1)
        return hashlib.sha256(tensor.numpy().tobytes()).hexdigest()

    return said_by_child(read)


def case_forked_children():
    """A child has none of the threads that its parent's kernels run on."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    x = torch.randn(300, 400)
    made = [(x + 1).exp(), x @ x.t(), (x * 2).sum(1)]
    said = [hash_in_child(each) for each in made]
    again = [(x + 1).exp(), x @ x.t(), (x * 2).sum(1)]
    torch.set_num_threads(before)
    return said, made, again


def case_random_stream():
    """Replays draw from their own generator: the job's stream stays as it was."""
    x = torch.randn(1000, requires_grad=True)
    y = F.dropout(x, 0.3)
    noise = torch.rand(100)
    generator = torch.Generator().manual_seed(3)
    own = torch.randn(100, generator=generator)
    drawn = torch.bernoulli(torch.full((100,), 0.4))
    state = torch.get_rng_state()
    normal = torch.normal(0.0, 1.0, (17,))  # an odd number leaves half a pair of normals
    y.sum().backward()
    permutation = torch.randperm(50)
    torch.set_rng_state(state)
    repeated = torch.normal(0.0, 1.0, (17,))
    torch.manual_seed(11)
    return (x, y, noise, own, drawn, normal, repeated, permutation, x.grad, torch.rand(4),
            torch.randn(5, generator=generator), torch.multinomial(torch.rand(20), 5),
            torch.rand(3).exponential_(), torch.nn.init.trunc_normal_(torch.empty(40)))


def case_batch_norm_of_another_type_than_its_statistics():
    """The type of the running statistics decides the kernel, and the type of what it saves."""
    layer, norm = torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64, affine=False)
    x = torch.randn(32, 16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = norm(layer(x).sin())
    y.float().square().sum().backward()
    return y.clone(), x.grad, layer.weight.grad, norm.running_mean, norm.running_var


def case_batch_norm_with_strided_statistics():
    statistics = torch.zeros(8, 2)
    statistics[:, 1] = 1
    x = torch.randn(16, 8, 20, requires_grad=True)
    y = F.batch_norm(x.exp(), statistics[:, 0], statistics[:, 1], torch.rand(8), torch.rand(8),
                     training=True)
    (y * 3).sin().sum().backward()
    return y.clone(), x.grad, statistics


def case_scratch_that_is_never_written():
    """oneDNN's recurrent layers and CTC save memory that they have filled only in part."""
    lstm = nn.LSTM(12, 20, num_layers=2, bidirectional=True, dropout=0.2)
    head = nn.Linear(40, 9)
    optimizer = torch.optim.SGD([*lstm.parameters(), *head.parameters()], lr=0.1)
    results = []
    for step in range(3):
        with torch.autocast("cpu", enabled=step == 2):
            hidden, (last, cell) = lstm(torch.randn(15, 4, 12, requires_grad=True))
            packed = nn.utils.rnn.pack_padded_sequence(hidden[..., :12], [15, 11, 7, 4])
            hidden = hidden + nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])[0]
        scores = head(hidden.float()).log_softmax(-1)
        lengths = torch.tensor([15, 14, 12, 15]), torch.tensor([6, 1, 5, 3])
        targets = torch.randint(1, 9, (4, 6))
        losses = [F.ctc_loss(scores, targets, *(each.tolist() for each in lengths)),
                  F.ctc_loss(scores, targets, *lengths, reduction="none").sum()]
        (sum(losses) + last.square().mean() + cell.float().mean()).backward()
        results += [loss.detach() for loss in losses] + [p.grad.clone() for p in lstm.parameters()]
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        results += lstm.eval()(torch.randn(3, 2, 12))[0]
    return results, list(lstm.parameters())
