"""Storages that are resized, swapped, shared, overwritten in part or through other views."""

import copy

import numpy
import torch
import torch.nn.functional as F


def made(*shape):
    """Return a tensor with lineage."""
    return torch.randn(*shape) * 2


def case_resize():
    x = made(10)
    y = x + 1
    x.resize_(20)
    x[10:] = 5
    z = x * 2
    x.resize_(4)
    return y, z, x


def case_resize_as():
    x, other = made(4, 4), made(2, 3)
    y = x * 3
    x.resize_as_(other)
    return y, x, x + other


def case_storage_resize():
    """FSDP frees parameters by resizing their storage to nothing, and fills them again later."""
    flat = made(64)
    view = flat[:32].view(4, 8)
    y = view.sum() + flat.mean()
    kept = flat.clone()
    flat.untyped_storage().resize_(0)
    z = y * 2
    flat.untyped_storage().resize_(64 * 4)
    flat.copy_(kept)
    w = view * 2
    flat.untyped_storage().resize_(0)
    torch.empty(4, device="meta").untyped_storage().resize_(0)
    return y, z, w, kept


def case_set():
    x, other = made(10), made(30)
    y = x * 2
    x.set_(other)
    z = x + 1
    other.mul_(3)
    w = x - 1
    a = made(5)
    a.set_(other.untyped_storage(), 3, (2, 4), (4, 1))
    return y, z, w, x, a, a * 2


def case_data_assignment():
    x = torch.randn(10, requires_grad=True)
    y = x * 2
    x.data = made(10)
    z = x * 2
    x.data = x.data + 1
    return y, z, x * 1


def case_swap():
    a, b = made(6), made(6)
    c, d = a * 2, b * 3
    torch.utils.swap_tensors(a, b)
    a += 1
    return a, b, c, d, a + c, b + d


def case_storage_swap():
    a, b = made(6), made(6)
    c, d = a * 2, b * 3
    if hasattr(a.untyped_storage(), "_swap_data_ptr_"):
        a.untyped_storage()._swap_data_ptr_(b.untyped_storage())
    a += 1
    return a + 0 * b, c, d


def case_share_memory():
    x = made(40)
    y = x + 1
    x.share_memory_()
    z = x * 2
    x += 5
    w = x * 2
    return y, z, w, x.is_shared(), y.is_shared()


def case_functions_over_elements():
    """Python's functions are called for each element, out of the dispatcher's sight."""
    x, left, right = made(12), made(12), made(12)
    y = x * 2
    x.apply_(lambda each: each / 2)
    z = x.sin()
    x.map_(left, lambda each, other: each + other)
    w = x.cos()
    x.map2_(left, right, lambda each, a, b: each + a * b)
    v = x.tan()
    x.map2_(left, right, lambda each, a, b: each + (torch.ones(9) * 2).sum().item() * a)
    return x, y, z, w, v, x * 1, left * right


def case_lazy_clone():
    x = made(50)
    y = x * 2
    clone = x._lazy_clone()
    z = clone + 1
    x.mul_(2)
    w = clone + x
    clone.add_(1)
    return x, y, z, w, clone


def case_copy_between_views():
    x = made(8, 8)
    y = x + 1
    x[:4].copy_(x[4:])
    z = x * 2
    x[:, 0].copy_(x[:, 1])
    x.t()[2].copy_(x[3])
    w = x.flip(0) + z
    x.diagonal().fill_(7)
    return x, y, z, w, x * 1


def case_partial_overwrites():
    x = made(100)
    y = x * 1
    x[10:20] = 3
    a = x + 1
    x[::2].zero_()
    b = x + 1
    x[50:].normal_()
    c = x + 1
    x.view(10, 10)[:, 3].uniform_()
    d = x + 1
    x.masked_fill_(x > 0.5, 0.25)
    x.index_fill_(0, torch.tensor([1, 5]), 9)
    x.scatter_(0, torch.tensor([3, 4]), 8.0)
    x[torch.tensor([0, 99])] = torch.tensor([1.0, 2.0])
    return x, y, a, b, c, d


def case_filled_piece_by_piece():
    """Loops put their results into memory without contents, some of which is read early."""
    state = torch.randn(4, 6, requires_grad=True)
    weight = torch.randn(6, 6, requires_grad=True)
    rows, columns = torch.empty(5, 4, 6), torch.empty(4, 5, 6)
    scanned, drawn = torch.empty(5, 4, 6), torch.empty(3, 8)
    early, doubles = torch.empty(6, 4), torch.empty(4, dtype=torch.float64)
    seen = []
    for k in range(5):
        state = torch.tanh(state @ weight)
        rows[k] = state
        columns[:, k] = state * 2
        with torch.no_grad():
            scanned[k] = scanned[k - 1] * 0.5 + state if k else state
            seen.append(scanned[:k + 1].sum())
    drawn[0].normal_()
    drawn[1, ::2] = 3
    drawn[1, 1::2].uniform_()
    drawn[2].copy_(drawn[0])
    early[:3] = 1
    early[4:] = state.detach()[:2, :4]
    seen.append(early[:3] * 2)
    seen.append(early[2:5].isnan() & False)  # reads what nobody has written
    early[3] = 7
    doubles.view(torch.int64)[:2] = 5
    doubles[2:] = 0.25
    loss = (rows * 3).sin().sum() + columns.square().sum()
    loss.backward()
    return rows, columns, scanned, drawn, early, doubles, seen, weight.grad, loss


def case_filled_column_by_column():
    """Slopes lie beside each other in each row, as those of Runge-Kutta solvers do."""
    state = torch.randn(300, 4, requires_grad=True)
    weight = torch.randn(4, 4, requires_grad=True)
    slopes, halves, crossed = torch.empty(300, 4, 3), torch.empty(300, 4), torch.empty(300, 4)
    for k in range(3):
        slopes[..., k] = torch.tanh(state @ weight)
        state = state + (slopes[..., :k + 1] * 0.1).sum(-1)
    halves[:, :2] = slopes[:, :2, 0].detach()
    seen = [halves[:, 1] * 2, halves[:, 1:3].isnan() & False]  # the latter was not written
    halves[:, 2:] = 3
    crossed[:, 1:3] = state.detach()[:, 1:3]
    crossed[7] = 5
    crossed[:, ::3] = torch.ones(300, 2)
    (slopes * 3).sin().sum().backward()
    return slopes, halves, crossed, seen, weight.grad


def case_operators_that_read_beyond():
    """They go by strides of their own, past what their argument shows."""
    x = torch.tensor([float(k) for k in range(12)])  # no operator has written it
    x[:6] = torch.zeros(6)
    y = torch.as_strided_copy(x[:6], (12,), (1,), 0)
    z = torch.as_strided_scatter(x[2:4], torch.ones(3), (3,), (4,), 1)
    spread = [torch.slice_scatter(x[::2], made(2), 0, 1, 3), torch.select_scatter(
        x.view(3, 4)[:, ::2], made(2), 0, 1), torch.diagonal_scatter(x.view(3, 4)[:, ::2], made(2))]
    spread += [torch.ops.aten.copy(x[::2], made(6)),
               *torch.ops.aten._foreach_copy([x[1::2]], [made(6)])]
    gaps = [each.as_strided((8,), (1,)) for each in spread[-2:]]
    x[6:] = torch.ones(6)
    numbers = torch.from_numpy(numpy.arange(1000, dtype="f"))
    window = torch.as_strided_copy(numbers[500:700], (10, 100), (10, 1), 0)
    repeated = torch.as_strided_copy(numbers[500:510], (10, 100), (0, 1), 0)
    return x, y, z, spread, gaps, window, repeated, made(3)


def case_full_overwrites():
    x = torch.empty(50)
    x.fill_(3)
    y = x * 2
    x.zero_()
    z = x + 1
    x.normal_()
    w = x * 2
    x.copy_(torch.arange(50))
    v = x * 2
    out = torch.empty(0)
    torch.add(x, 1, out=out)
    u = out * 2
    torch.mul(out, 2, out=out)
    return x, y, z, w, v, u, out


def case_out_arguments():
    a, b = made(8, 8), made(8, 8)
    out = torch.empty(8, 8)
    torch.mm(a, b, out=out)
    c = out * 1
    torch.mm(out.clone(), a, out=out)
    strided = torch.zeros(8, 16)
    torch.add(a, b, out=strided[:, ::2])
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.long)
    torch.max(a, 1, out=(values, indices))
    torch.cat((a, b), out=strided.resize_(16, 8))
    return out, c, strided, values, indices


def case_out_arguments_of_other_sizes():
    """Bytes beyond the new size stay, and come back with the old size."""
    results = []
    for fill in (lambda n, out: torch.linspace(0, 1, n, out=out),
                 lambda n, out: torch.logspace(0, 1, n, out=out),
                 lambda n, out: torch.arange(0, n, out=out),
                 lambda n, out: torch.range(1, n, out=out),
                 lambda n, out: torch.randperm(n, out=out)):
        for size in (4, 10, 40):
            out = made(10)
            before = out * 2
            fill(size, out)
            after = out * 3
            results += [before, after, out.resize_(10) * 1, out]
        view = torch.empty(0)[:0]
        fill(6, view)
        shared = torch.empty(0)
        other = shared.view(0, 3)
        fill(6, shared)
        results += [view, view + 1, shared * 1, shared.resize_(9)[:6] * 2, other]
    return results


def case_out_arguments_with_and_without_bytes():
    x, empty = made(4, 4), torch.empty(0)
    torch.add(empty, empty, out=empty)
    other = torch.empty(0)
    torch.cat((empty, x.flatten()), out=other)
    values, indices = torch.empty(0), torch.empty(4, dtype=torch.long)
    torch.max(x, 1, out=(values, indices))
    return empty, other, other * 3, values * 2, indices + 1


def case_out_arguments_of_compositions():
    """These give their result another size themselves, where no operator shows it."""
    a, b, batch = made(8, 8), made(8, 8), made(2, 4, 8)
    calls = [lambda out: torch.matmul(batch, b, out=out), lambda out: torch.kron(a, b, out=out),
             lambda out: torch.matmul(batch, batch.mT, out=out),
             lambda out: torch.inner(a, b, out=out), lambda out: torch.tensordot(a, b, 1, out=out),
             lambda out: torch.linalg.multi_dot([a, b, a], out=out),
             lambda out: torch.chain_matmul(a, b, a, out=out),
             lambda out: torch.linalg.tensorinv(a.view(8, 2, 4), 1, out=out),
             lambda out: torch.linalg.tensorsolve(a.view(8, 2, 4), b[0], out=out)]
    results = []
    for call in calls:
        out = made(37)
        before = out * 1
        call(out)
        results += [before, out, out + 1]
    return results


def case_empty_results_into_tensors():
    """They give the result another size, and write nothing."""
    empty = torch.ops.aten
    calls = [lambda out: empty.new_empty.out(out, [3, 5], out=out),
             lambda out: empty.empty_like.out(made(9, 9), out=out),
             lambda out: empty.empty_permuted.out([2, 4], [1, 0], out=out),
             lambda out: empty.new_empty_strided.out(out, [40], [1], out=out),
             lambda out: torch.empty((70,), out=out)]
    results = []
    for call in calls:
        out = made(6, 6)
        before, view = out + 1, out[2:]
        call(out)
        out.fill_(3)
        results += [before, out, out * 2, view * 1 if out.numel() >= 36 else view.shape]
    return results


def case_kernels_chosen_by_dispatch_keys():
    """Keys made by hand leave out the one on which operators are seen."""
    aten, key = torch.ops.aten, torch._C.DispatchKey.CPU
    keys, excluded = torch._C.DispatchKeySet(key), torch._C._dispatch_tls_local_exclude_set()
    x, y = made(8, 8), made(8, 8)
    first = x.sin()
    results = [aten.mul.Tensor._op_dk(key, x, y), aten.cos.default.redispatch(keys, y)]
    aten.add_.Tensor._op_dk(key, x, y)
    second = x.sin()
    aten.mul_.Scalar.redispatch(keys, x, 3.0)
    third = x.sin()
    with torch._C._ForceDispatchKeyGuard(
            torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect), excluded):
        results.append(x + y)
        x.add_(1)
    return first, second, third, results, x, y, [each * 1 for each in results]


def case_kernels_called_by_themselves():
    """The dispatcher sees no call of what torch.library.get_kernel gives."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

    def call(name, *args, **kwargs):
        return torch.library.get_kernel("aten::" + name, "CPU").call_boxed(keys, *args, **kwargs)

    x, y = made(8, 8), made(8, 8)
    first = x.sin()
    results = [call("mul.Tensor", x, y), call("cat", [x, y * 2], 1)]
    call("mul_.Tensor", x, y)
    second = x.sin()
    call("add.out", y, x, out=x)
    third = x.sin()
    return first, second, third, results, x, y, [each * 1 for each in results]


def case_lists():
    tensors = [made(5), made(7, 2), made(3)]
    others = [made(5), made(7, 2), made(3)]
    before = [t * 1 for t in tensors]
    torch._foreach_add_(tensors, others, alpha=0.5)
    middle = [t * 1 for t in tensors]
    torch._foreach_addcmul_(tensors, others, others, 0.1)
    torch._foreach_copy_(others, tensors)
    torch._foreach_zero_(tensors[:1])
    results = torch._foreach_mul(tensors, 2.0)
    norms = torch._foreach_norm(others)
    parts = torch.split(made(12), 5)
    parts[1].add_(1)
    return tensors, others, before, middle, results, norms, parts, torch.stack(parts[:2])


def case_fused_optimizers():
    results = []
    for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad):
        weights = [torch.nn.Parameter(made(9, 9)) for _ in range(3)]
        optimizer = kind(weights, lr=0.1, fused=True)
        history = []
        for _ in range(3):
            loss = sum((w @ w).tanh().sum() for w in weights)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss)
        results += [history, weights, [w * 1 for w in weights]]
    return results


def case_complex():
    x = torch.randn(20, dtype=torch.complex64)
    y = x.conj()
    z = y * 2
    imaginary = y.imag  # a negative view
    w = imaginary + 1
    x.real.add_(1)
    torch.view_as_real(x)[3] = 4
    v = y + x
    physical = y.resolve_conj()
    negative = imaginary.resolve_neg() * 2
    return x, y, z, imaginary, w, v, physical, negative, torch.fft.fft(x), (x @ y)


def case_zero_tensors():
    x = torch.randn(5, requires_grad=True)
    zero = torch._efficientzerotensor((5,))
    y = x + zero
    empty = made(0, 4)
    z = torch.cat([empty, made(2, 4)]) + empty.sum()
    scalar = torch.tensor(3.0) * 2
    w = x * scalar + 2.5 * scalar
    w.sum().backward()
    return y, z, w, empty, scalar, x.grad


def case_quantized():
    x = made(6, 6)
    q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
    y = q.dequantize() * 2
    per_channel = torch.quantize_per_channel(x, torch.full((6,), 0.05), torch.zeros(6).long(), 0,
                                             torch.qint8)
    relu = F.relu(q)
    x.add_(1)
    fake = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
    return y, q, per_channel.dequantize(), relu.dequantize(), x, fake


def case_expanded_and_strided():
    x = made(1, 5)
    wide = x.expand(4, 5)
    y = wide * made(4, 5)
    x.add_(1)
    z = wide.contiguous() + y
    windows = made(20).unfold(0, 6, 2)
    a = windows * 2
    strided = torch.as_strided(made(30), (3, 4), (2, 5), 1)
    b = strided.sum(0)
    channels_last = made(2, 3, 5, 5).to(memory_format=torch.channels_last)
    c = F.conv2d(channels_last, made(4, 3, 3, 3))
    return y, z, a, b, c, c.stride(), windows.clone(), strided * 1


def case_unannounced_aliases():
    """Operators whose result may share memory with an argument, without saying so."""
    x = made(4, 6)
    y = torch._unsafe_view(x, (6, 4)) if hasattr(torch, "_unsafe_view") else x.view(6, 4)
    same = x.contiguous()
    cpu = x.to("cpu")
    kept = x.type_as(x)
    dropped = F.dropout(x, 0.5, training=False)
    reshaped = x.reshape(24)
    flat = torch.flatten(x)
    single, = torch.broadcast_tensors(x)
    x.add_(10)
    return y, same, cpu, kept, dropped, reshaped, flat, single, y * 1, reshaped + 1


def case_deepcopy_and_clones():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
    x = made(16, 8)
    model(x).sum().backward()
    twin = copy.deepcopy(model)
    model(x + 1).sum().backward()
    twin(x + 2).sum().backward()
    return [[p, p.grad] for p in model.parameters()], [[p, p.grad] for p in twin.parameters()], \
        list(model.buffers()), list(twin.buffers())


def case_dead_roots():
    """What was evicted rests on tensors that died, were written, or both."""
    x = torch.rand(50)
    y = x.sin()
    del x
    a = torch.rand(50)
    b = a.cos()
    c = b * 2
    del b
    a.zero_()
    d = torch.rand(10)
    e = [d + k for k in range(5)]
    d.fill_(3)
    del d
    return y, a, c, e


def case_versions():
    x = made(30)
    seen = []
    for k in range(50):
        seen.append(x.sin())
        x.mul_(1.01).add_(k)
        if k % 7 == 0:
            seen.append(x[3:9] * 1)
    return x, seen, torch.stack([s.sum() for s in seen])


def case_more_operands_than_16_bits_count():
    many = made(66000, 1).unbind()
    stacked = torch.stack(many)
    return stacked, torch.cat(many) + 1, stacked.t() * 2
