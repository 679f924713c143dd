"""Memory of others, and others in ours: numpy, DLPack, shared memory, extensions in C++."""

import contextlib
import ctypes
import io
import pickle
import threading
import time
from multiprocessing.reduction import ForkingPickler

import numpy as np
import torch
from tidepool.job import _plugin

MAJOR, MINOR = _plugin.torch_version(torch)
HAS_SLOT = (MAJOR, MINOR) >= (2, 13)  # docs/supported.md: without it, some writers are not seen


def library_of_cases(name):
    """Return the path of a library that was built for the cases."""
    plugin = next(_plugin.LIBRARY_FOLDER.glob("libtidepool_torch_*.so")).resolve()
    return str(plugin.parents[1] / "tests" / "cases" / f"libcases_{name}.so")


def extension():
    """Return the operators and the plain functions of extension.cpp."""
    path = library_of_cases(f"extension_torch_{MAJOR}_{MINOR}")
    torch.ops.load_library(path)
    functions = ctypes.CDLL(path)
    functions.extension_fill.argtypes = [ctypes.c_void_p, ctypes.c_float]
    functions.extension_first.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_float)]
    return torch.ops.tidepool_extension, functions


def written_by_operators(n=24):
    """Return a tensor whose contents cannot be recomputed: a root."""
    x = torch.empty(n)
    x.isnan()  # what is read before it is filled has come from outside
    x[: n // 2] = torch.randn(n // 2)
    x[n // 2:] = torch.randn(n - n // 2)
    return x


def case_functions_read_what_is_being_written():
    """`apply_` and `map_` call Python between one number and the next."""
    made = []

    def read(tensor, count, value):
        count.append(value)
        if len(count) == 1000:
            made.append(tensor * 2)
            made.append(made[-1].clone())
        return value + 1 if len(count) == 1501 else value

    x, y, first, second = torch.randn(4000) * 2, torch.randn(4000) * 2, [], []
    x.apply_(lambda value: read(x, first, value))
    y.map_(torch.zeros(4000), lambda value, _: read(y, second, value))
    return x, y, made, x * 3, y * 3


def case_numpy_buffer_refilled():
    buffer = np.zeros((8, 4), dtype=np.float32)
    batch = torch.from_numpy(buffer)
    seen = []
    for k in range(4):
        buffer[:] = np.arange(32).reshape(8, 4) + k
        y = batch * 2
        seen += [y, batch + y, y.sum()]
    return seen, batch


def case_numpy_view_of_a_result():
    x = torch.randn(10) * 2
    view = x.numpy()
    y = x + 1
    view[:] = 7
    z = x + 1
    return y, z, x, torch.from_numpy(view) * 1


def case_numpy_before_the_first_operator():
    x = torch.empty(10)
    view = x.numpy()
    view[:] = 1
    y = x * 2
    view[:] = 9
    z = x * 2
    return y, z


def case_numpy_without_gradient():
    x = (torch.randn(6, requires_grad=True) * 2).detach()
    w = torch.nn.Parameter(torch.randn(6))
    with torch.no_grad():
        view = w.numpy()
    y = w * 3 + x
    view[:] = 1
    z = w * 3
    return y, z, x.numpy(force=True).tolist(), np.asarray(x).sum().item()


def case_array_interface_and_buffers():
    x = torch.randn(12) * 2
    assert not hasattr(x, "__cuda_array_interface__")
    y = x + 1
    array = np.array(x)
    memory = bytes(x.untyped_storage())[:8]
    copied = x.tolist()
    read = torch.frombuffer(bytearray(array.tobytes()), dtype=torch.float32) * 2
    return y, array.tolist(), memory, copied, read


def case_dlpack():
    from torch.utils.dlpack import from_dlpack, to_dlpack

    x = torch.randn(10) * 2
    y = x + 1
    shared = from_dlpack(to_dlpack(x))
    shared += 5
    z = x + 1
    array = np.from_dlpack(torch.randn(5) * 3)
    source = np.arange(6, dtype=np.float32)
    imported = torch.from_dlpack(source)
    a = imported * 2
    source += 1
    b = imported * 2
    return x, y, z, array.tolist(), a, b


def case_what_readers_compute_themselves():
    z = torch.complex(torch.randn(6), torch.randn(6)) * 2
    x = torch.randn(6) * 2
    capsule, imported = x.__dlpack__(copy=True), torch.from_dlpack(x, copy=True)
    other = [x * k for k in range(4)]
    copied = torch.from_dlpack(capsule)
    imported += 1
    return z.conj().tolist(), z.conj().imag.tolist(), copied, imported, x, other


def case_data_ptr_written():
    x = torch.randn(10) * 2
    y = x + 1
    pointer = x.data_ptr()
    values = (ctypes.c_float * 10).from_address(pointer)
    values[3] = 42.0
    z = x + 1
    values[4] = 43.0
    w = x + z
    return x, y, z, w


def case_storage_access():
    x = torch.randn(10) * 2
    y = x + 1
    storage = x.untyped_storage()
    storage[0:4]
    storage[0] = 0
    storage[1] = 0
    z = x + 1
    typed = x.storage()
    typed[5] = 3.0
    w = x + 1
    copied = storage.clone()
    other = torch.empty(0).set_(copied.clone(), 0, (10,))
    storage.fill_(0)
    return y, z, w, x, other, typed.tolist(), copied.nbytes(), x.storage().sum() if hasattr(
        x.storage(), "sum") else 0


def case_shared_memory_written():
    x = (torch.randn(10) * 2).share_memory_()
    y = x + 1
    alias = pickle.loads(bytes(ForkingPickler.dumps(x)))
    alias.fill_(3)
    z = x + 1
    return y, z, x


def case_pickled():
    x = torch.randn(10) * 2
    y = x.sin()
    parts = {"x": x, "view": x[2:5], "y": y}
    back = pickle.loads(pickle.dumps(parts))
    back["x"].add_(1)
    file = io.BytesIO()
    torch.save(parts, file)
    file.seek(0)
    saved = torch.load(file)
    saved["x"].mul_(3)
    return x, y, back, saved


def case_extension_operators():
    operators, _ = extension()
    x = torch.randn(16) * 2
    y = operators.twice(x)
    z = y + 1
    operators.add_in_place(y, 3.0)
    w = y + z
    return x, y, z, w


def case_extension_lies():
    operators, _ = extension()
    x = torch.randn(16) * 2
    y = x + 1
    first = operators.secretly_negates(x)
    z = x + 1
    second = operators.casts_away_const(x)
    w = x + 1
    return x, y, first, z, second, w


def case_extension_alias():
    operators, _ = extension()
    x = torch.randn(16) * 2
    y = x.cos()
    alias = operators.alias(x)
    z = alias * 2
    x.add_(5)
    w = alias * 2
    alias.mul_(0.5)
    return x, y, z, w, x + 1, alias + 1


def case_extension_keeps_a_pointer():
    operators, _ = extension()
    x = torch.randn(16) * 2
    y = x.cos()
    operators.keep(x)
    first = operators.read_kept()
    x.mul_(2)
    second = operators.read_kept()
    z = x + 1
    operators.write_kept(4.0)
    w = x + 1
    return y, first, second, z, w, x


def case_methods_of_a_class_in_cpp():
    """They have no graph, and read and write what they were given, and what the object kept."""
    extension()
    x, other = torch.randn(16) * 2, torch.randn(16) * 2
    kind = torch.classes.tidepool_extension.Holder
    holder = kind(x)
    y = x + 1
    results = [holder.sum(), holder.plus(other), holder.plus(other * 2) * 1, kind.last(other)]
    holder.fill(3.0)
    z = x + 1
    packed = torch.ops.quantized.linear_prepack(
        torch.quantize_per_tensor(torch.eye(4) * 2, 0.1, 0, torch.qint8), torch.ones(4) * 2)
    weight, bias = packed.unpack()
    return x, other, y, z, results, holder.sum(), weight, bias * 1


def case_raw_writer_of_a_root():
    """A function that no dispatcher shows writes what others were computed from."""
    if not HAS_SLOT:
        return torch.randn(3) * 2 + 1
    _, functions = extension()
    x = written_by_operators()
    y = x.sin()
    z = y + 1
    refused = functions.extension_fill(x.untyped_storage()._cdata, 3.0)
    w = x + 1
    again = functions.extension_fill(x.untyped_storage()._cdata, 5.0)
    v = x + 1
    return x, y, z, w, v, refused, again


def case_raw_writer_beside_an_operator_of_another_thread():
    """They share a tensor, but none of its numbers."""
    if not HAS_SLOT:
        return torch.randn(3) * 2 + 1
    _, functions = extension()
    functions.extension_set_first.argtypes = [ctypes.c_void_p, ctypes.c_float]
    results = []
    for x in (torch.randn(2_000_000) * 2, written_by_operators(2_000_000)):
        y, begins, written, sums = x[:9].sin(), threading.Event(), threading.Event(), []

        def read(x=x, begins=begins, written=written, sums=sums):
            begins.set()
            while not written.is_set():
                sums[:] = [x[9:].sort()[0].sum()]

        reader = threading.Thread(target=read)
        reader.start()
        begins.wait()
        time.sleep(0.05)  # it sorts now, which is all that it does
        refused = functions.extension_set_first(x.untyped_storage()._cdata, 7.0)
        written.set()
        reader.join()
        results.append([refused, x[:9] + 1, y, sums, x[:9].cos()])
    return results


def case_raw_writer_before_any_operator():
    if not HAS_SLOT:
        return torch.randn(3) * 2 + 1
    _, functions = extension()
    x = torch.empty(12)
    functions.extension_fill(x.untyped_storage()._cdata, 2.0)
    y = x * 2
    functions.extension_fill(x.untyped_storage()._cdata, 8.0)
    z = x * 2
    return y, z, x


def case_raw_writer_after_readers_that_never_end():
    """What asks for a pointer outside of any kernel, or fails after it, ends no operator."""
    if not HAS_SLOT:
        return torch.randn(3) * 2 + 1
    _, functions = extension()
    far = torch.full((8,), 99)
    readers = [torch.fbgemm_pack_gemm_matrix_fp16, lambda x: x.quantile(0.5),
               lambda x: torch.kron(x, x), lambda x: torch.linalg.multi_dot([x, x, x]),
               lambda x: x.gather(0, far[:1, None]), lambda x: x.index_select(0, far),
               lambda x: torch.nn.functional.nll_loss(x, far),
               lambda x: torch.nn.functional.multi_margin_loss(x, far),
               lambda x: torch.nn.functional.embedding_bag(far[None], x),
               lambda x: torch.linalg.cholesky(-x @ x.T), lambda x: torch.bincount(x.long() - 9)]
    results = []
    for reader in readers:
        x = written_by_operators(64).view(8, 8)
        y = x.sin()
        z = y + 1
        with contextlib.suppress(RuntimeError, IndexError):
            reader(x)
        refused = functions.extension_fill(x.untyped_storage()._cdata, 3.0)
        results.append([y, z, x * 2, refused])
    return results


def case_shared_file():
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        np.arange(10, dtype=np.float32).tofile(file.name)
        x = torch.from_file(file.name, shared=True, size=10, dtype=torch.float32)
        y = x * 2
        np.full(10, 3, dtype=np.float32).tofile(file.name)
        z = x * 2
        mapped = np.memmap(file.name, dtype=np.float32)
        a = torch.from_numpy(mapped) + 1
        mapped[:] = 6
        return y, z, a, torch.from_numpy(mapped) + y


# What operators read in memory of others is copied, so that their results can be made again. Here
# results are larger than what they are made from: else nothing is copied.


def batch_of(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def spread(x, k=4):
    """Return what takes more memory than `x`, by two operators."""
    return torch.sin(torch.cat([x] * k)) + 1


def case_batch_written_between_calls():
    array = batch_of(8, 32)
    batch = torch.from_numpy(array)
    kept = []
    for k in range(4):
        kept += [spread(batch), spread(batch[2:6])]
        array[:] = array * 2 + k
        array[3, k] = 7
    return kept, batch, spread(batch)


def case_batch_freed():
    kept = []
    for k in range(5):
        array = batch_of(16, 16, seed=k)
        batch = torch.from_numpy(array)
        weight = torch.ones(16, 64, requires_grad=True)
        hidden = torch.relu(batch @ weight)
        kept.append(hidden)
        del array, batch
        hidden.pow(2).sum().backward()
        kept.append(weight.grad)
    return kept


def case_batch_in_views():
    array = batch_of(12, 10)
    whole = torch.from_numpy(array)
    odd = torch.from_numpy(array.reshape(-1)[3:])  # off every boundary of 64 bytes
    views = [whole[1:, 2:], whole.t(), whole[::2], whole[:, 3], whole[4:5].expand(6, 10), odd,
             odd[::3], whole[:0], whole.flip(0)]
    kept = [spread(view) for view in views]
    array += 1
    return kept, [spread(view) for view in views]


def case_batch_of_bytes_and_indices():
    pixels = torch.from_numpy(np.arange(3 * 64, dtype=np.uint8).reshape(3, 8, 8))
    image = pixels.float() / 255
    tokens = torch.from_numpy(np.arange(40) % 7)
    table = torch.randn(7, 33, requires_grad=True)
    embedded = torch.nn.functional.embedding(tokens, table)
    loss = torch.nn.functional.cross_entropy(embedded.tanh(), tokens)
    pixels.numpy()[:] = 9
    tokens.numpy()[:] = 3
    return image, embedded, embedded * 2, loss, pixels.double() * 2


def case_batch_shared_between_calls():
    x = torch.from_numpy(batch_of(2, 3, 12, 12))
    first = torch.nn.Conv2d(3, 16, 3)
    norm = torch.nn.BatchNorm2d(16)
    kept = []
    for _ in range(3):
        out = torch.relu(norm(first(x)))
        (out * out).mean().backward()
        kept += [out.detach(), first.weight.grad.clone()]
        with torch.no_grad():
            for parameter in first.parameters():
                parameter -= parameter.grad
        first.zero_grad()
    return kept


def case_batch_in_shared_memory_reused():
    """A worker that hands over the same shared memory again and again."""
    slot = torch.empty(64).share_memory_()
    handed = pickle.loads(bytes(ForkingPickler.dumps(slot)))
    kept = []
    for k in range(4):
        slot.copy_(torch.arange(64.0) * (k + 1))
        kept.append(spread(handed))
        slot.fill_(-1)
        kept.append(kept[-1] * 2)
    return kept


def case_batch_updates_ours():
    array = batch_of(16)
    batch = torch.from_numpy(array)
    static = torch.randn(4, 16) * 2
    before = static * 1
    static.add_(batch)
    array[:] = 5
    static.mul_(batch)
    static[1].copy_(batch)
    array[:] = 6
    batch.add_(static[0])
    return static, before, batch, static + batch, array.tolist()


def case_batches_on_threads():
    kept = [None] * 4
    shared = torch.from_numpy(batch_of(24, 8))

    def work(k):
        own = batch_of(24, 8, seed=k)
        mine = torch.from_numpy(own)
        out = []
        for step in range(4):
            out += [spread(shared), spread(mine)]
            own += step
        kept[k] = out

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return kept


def case_batch_written_while_read():
    """Another thread writes all the time: whatever is read, results read the same twice."""
    array = np.zeros((256, 256), dtype=np.float32)
    batch = torch.from_numpy(array)
    done = threading.Event()

    def write():
        while not done.is_set():
            np.add(array, 1, out=array)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    for _ in range(40):
        out = torch.sin(batch.double())
        seen.append(torch.equal(out.clone(), out.clone()))
    done.set()
    writer.join()
    array[:] = 0
    return seen, spread(batch)
