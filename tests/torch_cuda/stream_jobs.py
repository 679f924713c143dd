"""Small jobs whose tensors are read on other streams than the one on which they come back.

    python stream_jobs.py NAME...

Run and read as remat_jobs.py. Nothing here orders two streams more than stock PyTorch needs.
"""

from __future__ import annotations

import ctypes
import sys

from remat_jobs import device, evict_all, main, prints, state

import torch  # isort: skip  after the stand-in's part of remat_jobs

EVICTED = 3


def made_on_a_side_stream() -> tuple[torch.cuda.Stream, torch.Tensor, torch.Tensor, int]:
    """Return a stream, two tensors that were made on it, and how many were evicted.

    The default stream has waited for nothing.
    """
    side = torch.cuda.Stream()
    host = torch.arange(4096.0).pin_memory()
    with torch.cuda.stream(side):
        x = host.to("cuda", non_blocking=True)
        y = x.sin()
    return side, x, y, evict_all()


class Reader:
    """A stream that reads memory as a kernel that is given its address does."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self._mark = torch.ones(1, device="cuda")
        self._mark.data_ptr()  # it stays: memory from the allocator would order the stream

    def read(self, pointer: int, size_bytes: int) -> None:
        """Read with the stream's next operation."""
        with torch.cuda.stream(self.stream):
            self._mark.add_(1)
        device.used(pointer, size_bytes, self.stream.cuda_stream)


def settled_elsewhere() -> dict:
    """Change a switch on another stream than the one that made what was evicted."""
    side, x, y, evicted = made_on_a_side_stream()
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = not before
    torch.backends.cuda.matmul.allow_tf32 = before
    with torch.cuda.stream(side):
        z = y.cos()
    torch.cuda.synchronize()
    return {"prints": prints(x, y, z), "evicted": evicted}


def address_taken_elsewhere() -> dict:
    """Ask on one stream for the address of what another stream made, and read it on a third."""
    third = Reader()
    side, _, y, evicted = made_on_a_side_stream()
    third.stream.wait_stream(side)
    third.read(y.data_ptr(), y.untyped_storage().nbytes())
    torch.cuda.synchronize()
    return {"prints": prints(y), "evicted": evicted}


def address_of_what_an_operator_restored() -> dict:
    """Have an operator restore a tensor on one stream, and read its address on another."""
    third, reader = Reader(), torch.cuda.Stream()
    side, _, y, evicted = made_on_a_side_stream()
    reader.wait_stream(side)
    third.stream.wait_stream(side)
    with torch.cuda.stream(reader):
        z = y.cos()
    third.read(y.data_ptr(), y.untyped_storage().nbytes())
    torch.cuda.synchronize()
    return {"prints": prints(y, z), "evicted": evicted}


def address_of_what_was_read_elsewhere() -> dict:
    """Ask for the address of what only a side stream has filled and read, and write there on it."""
    third = Reader()
    side, x, y, evicted = made_on_a_side_stream()
    pointer, size_bytes = x.data_ptr(), x.untyped_storage().nbytes()  # restores y, on this stream
    third.stream.wait_stream(side)
    third.read(pointer, size_bytes)
    torch.cuda.synchronize()
    return {"prints": prints(y), "evicted": evicted}


def used_beside_another_device() -> dict:
    """Compute on one device while a graph is captured on another; lend memory to its stream."""
    other = torch.randn(64, device="cuda:1")
    for _ in range(4):
        read = other.sin()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = (other + 1) * 2
    lent = torch.empty(64, device="cuda:0")
    lent.record_stream(torch.cuda.current_stream(1))
    lent.normal_()
    evicted = evict_all()
    is_away = state(lent) == EVICTED
    return {"prints": [*prints(read, z), is_away], "evicted": evicted}


def written_on_the_default_stream() -> dict:
    """Evict what one stream made and the default stream wrote last, without an order to it."""
    side = torch.cuda.Stream()
    old, new = torch.arange(4096.0).pin_memory(), torch.ones(4096).pin_memory()
    with torch.cuda.stream(side):
        x = old.to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)
    x.copy_(new, non_blocking=True)
    with torch.cuda.stream(side):
        evicted = evict_all()
        y = torch.zeros(4096, device="cuda")
    z = x.sin()
    torch.cuda.synchronize()
    return {"prints": prints(x, y, z), "evicted": evicted}


def written_where_readers_were_evicted() -> dict:
    """Write what was read elsewhere, on a stream that is not ordered after what it was read with.

    The reader is brought back before the write, and reads both again.
    """
    side = torch.cuda.Stream()
    x = torch.arange(4096.0).cuda()
    y = x.sin()
    side.wait_stream(torch.cuda.current_stream())
    numbers = torch.arange(4096.0).pin_memory()
    with torch.cuda.stream(side):
        other = numbers.to("cuda", non_blocking=True)
        z = y + other
    y.record_stream(side)
    del y
    evicted = evict_all()
    x.mul_(2)
    with torch.cuda.stream(side):
        read = z.cos()
    torch.cuda.synchronize()
    return {"prints": prints(x, z, read), "evicted": evicted}


def read_on_streams_of_others() -> dict:
    """Give addresses to streams of other libraries, which wait for the maker and never allocate."""
    runtime = ctypes.CDLL("libcudart.so.13")
    streams = [ctypes.c_void_p() for _ in range(3)]
    made, hosts, evicted = [], [], 0
    for stream, address in zip(streams, (
            lambda x, _: x.data_ptr(), lambda x, _: x.__cuda_array_interface__["data"][0],
            lambda x, stream: dlpack_address(x, stream)), strict=True):
        runtime.cudaStreamCreateWithFlags(ctypes.byref(stream), 1)
        made.append(torch.arange(4096.0, device="cuda").sin())
        torch.cuda.ExternalStream(stream.value).wait_stream(torch.cuda.current_stream())
        evicted += evict_all()
        pointer = address(made[-1], stream.value)
        hosts.append(torch.empty(4096).pin_memory())
        runtime.cudaMemcpyAsync(ctypes.c_void_p(hosts[-1].data_ptr()), ctypes.c_void_p(pointer),
                                ctypes.c_size_t(4 * 4096), 2, stream)
        runtime.cudaStreamSynchronize(stream)
    torch.cuda.synchronize()
    return {"prints": prints(*hosts), "evicted": evicted}


def dlpack_address(tensor: torch.Tensor, stream: int) -> int:
    """Return the address that a capsule for a stream has."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = tensor.__dlpack__(stream=stream)
    return ctypes.c_void_p.from_address(pointer(capsule, b"dltensor")).value  # its first member


def gradients_between_streams() -> dict:
    """Go backward over two streams, and evict each gradient before the next function has it."""
    side = torch.cuda.Stream()
    evicted = [0]

    def evict(given: object, made: object) -> None:
        evicted[0] += evict_all()

    leaves = [torch.arange(4096.0).div(4096 + k).cuda().requires_grad_() for k in range(2)]
    x = leaves[0].mul(leaves[1])
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x.mul(leaves[1])
    z = x.mul(leaves[0])
    torch.cuda.current_stream().wait_stream(side)
    end = y.mul(z)
    for each in (x, y, z, end):
        each.grad_fn.register_hook(evict)
    end.sum().backward()
    torch.cuda.synchronize()
    return {"prints": prints(*[leaf.grad for leaf in leaves]), "evicted": evicted[0]}


CASES = {case.__name__: case for case in (
    settled_elsewhere, address_taken_elsewhere, address_of_what_an_operator_restored,
    address_of_what_was_read_elsewhere, used_beside_another_device,
    written_on_the_default_stream, written_where_readers_were_evicted, read_on_streams_of_others,
    gradients_between_streams)}

if __name__ == "__main__":
    main(CASES, sys.argv[1:])
