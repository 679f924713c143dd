"""A fingerprint tells bits of logical elements, and reading them leaves no trace."""

import pytest

torch = pytest.importorskip("torch")

from tidepool.verify import _fingerprint  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402


@pytest.fixture(scope="module")
def of():
    return _fingerprint.Fingerprints(torch).of


def bits(pattern: int) -> torch.Tensor:
    return torch.tensor([pattern], dtype=torch.int32).view(torch.float32)


@pytest.mark.parametrize("one, other", [
    (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0000002])),
    (torch.tensor([0.0]), torch.tensor([-0.0])),
    (bits(0x7FC00000), bits(0x7FC00001)),
    (torch.zeros(2, 3), torch.zeros(3, 2)),
    (torch.zeros(2), torch.zeros(1)),
    (torch.zeros(0, 2), torch.zeros(0, 3)),
    (torch.zeros(2), torch.zeros(2, dtype=torch.int32)),
    (torch.tensor([1 + 2j]), torch.tensor([1 - 2j])),
    (torch.tensor([True, False]), torch.tensor([True, True])),
    (torch.eye(3).to_sparse(), torch.eye(3)),
    (torch.eye(3).to_sparse(), (2 * torch.eye(3)).to_sparse()),
], ids=str)
def test_what_differs(of, one, other):
    assert of(one) != of(other)
    assert of(one) == of(one.clone())


@pytest.mark.parametrize("dtype", [
    torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn, torch.complex64,
    torch.complex128, torch.int8, torch.int64, torch.bool], ids=str)
def test_dtypes(of, dtype):
    tensor = torch.tensor([[0, 1], [1, 0], [1, 1]]).to(dtype)
    other = torch.tensor([[0, 1], [1, 1], [1, 1]]).to(dtype)
    assert of(tensor) == of(tensor.clone()) != of(other)
    assert "unreadable" not in of(tensor)


def test_bits_count_and_layout_in_memory_does_not(of):
    nan = bits(0x7FC00001)
    assert of(nan) == of(nan.clone())
    whole = torch.arange(24.0).view(4, 6)
    assert of(whole.t()) == of(whole.t().contiguous()) != of(whole)
    assert of(whole[1:3, 2:4]) == of(whole[1:3, 2:4].clone())
    assert of(torch.ones(1).expand(5)) == of(torch.ones(5))
    conjugate = torch.tensor([1 + 2j]).conj()
    assert of(conjugate) == of(torch.tensor([1 - 2j]))
    assert of(conjugate.imag) == of(torch.tensor([-2.0]))
    assert of(torch.nn.Parameter(whole)) == of(whole)


@pytest.mark.parametrize("make", [
    lambda: torch.arange(5000.0),
    lambda: torch.arange(5000.0).view(50, 100).t(),
    lambda: torch.arange(6000.0).view(2, 3, 1000).transpose(0, 2),
    lambda: torch.arange(6000.0).view(1, 2, 3000).transpose(1, 2),
    lambda: torch.arange(5000.0).view(5, 1000)[:, ::2],
])
def test_large_tensors_are_read_in_pieces(monkeypatch, make):
    tensor = make()
    expected = _fingerprint.Fingerprints(torch).of(tensor)
    monkeypatch.setattr(_fingerprint, "PIECE_BYTES", 1024)
    small = _fingerprint.Fingerprints(torch)
    assert small.of(tensor) == expected == small.of(tensor.contiguous())
    changed = tensor.contiguous().clone()
    changed.view(-1)[-1] += 1
    assert small.of(changed) != expected


def test_layouts_and_subclasses(of):
    matrix = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    for changed in (lambda m: m.to_sparse_csr(), lambda m: m.to_sparse_csc(),
                    lambda m: m.to_mkldnn(), lambda m: torch.nested.nested_tensor([m, m[0:1]]),
                    lambda m: torch.nested.nested_tensor([m, m[0:1]], layout=torch.jagged),
                    lambda m: m.as_subclass(type("Mine", (torch.Tensor,), {}))):
        assert of(changed(matrix)) == of(changed(matrix.clone())) != of(changed(matrix + 1))
        assert "unreadable" not in of(changed(matrix))
    assert of(torch.empty(3, device="meta")) != of(torch.empty(4, device="meta"))
    wrapper = torch.Tensor._make_wrapper_subclass(
        type("Opaque", (torch.Tensor,), {"__torch_dispatch__": None}), (2,))
    assert of(wrapper).startswith("unreadable (Opaque")


def test_out_of_memory_is_the_jobs(of, monkeypatch):
    def refuse(*_):
        raise torch.OutOfMemoryError("cannot restore")

    fingerprints = _fingerprint.Fingerprints(torch)
    monkeypatch.setattr(fingerprints, "_copy", refuse)
    for tensors in ([torch.ones(2)], [torch.ones(2), torch.zeros(3)]):
        with pytest.raises(torch.OutOfMemoryError):
            fingerprints.together(tensors)


@pytest.mark.parametrize("piece_bytes", [8, 64, 1024, _fingerprint.PIECE_BYTES])
def test_together_they_are_what_they_are_alone(of, monkeypatch, piece_bytes):
    opaque = torch.Tensor._make_wrapper_subclass(
        type("Opaque", (torch.Tensor,), {"__torch_dispatch__": None}), (2,))
    tensors = [torch.arange(500.0).view(10, 50).t(), torch.tensor(True), torch.zeros(0, 2),
               torch.eye(7).to_sparse(), torch.arange(40) + 1j, torch.ones(3, dtype=torch.int8)]
    monkeypatch.setattr(_fingerprint, "PIECE_BYTES", piece_bytes)
    together = _fingerprint.Fingerprints(torch).together
    assert together(tensors) == [of(tensor) for tensor in tensors]
    assert together([*tensors, opaque]) == [*together(tensors), of(opaque)]
    assert together([]) == []


def test_tensors_that_fit_are_read_by_one_operator(monkeypatch):
    fingerprints, read = _fingerprint.Fingerprints(torch), []
    original = fingerprints._copy
    monkeypatch.setattr(fingerprints, "_copy",
                        lambda pieces, room: (read.append(len(pieces)), original(pieces, room)))
    fingerprints.together([torch.ones(2), torch.ones(3), torch.ones(4)])
    assert read == [3]


def test_nothing_notices(of):
    class Noticing(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            raise AssertionError(function)

    state = torch.default_generator.get_state()
    leaf = torch.nn.Parameter(torch.ones(3))
    used = leaf * 2
    expected, version, pointer = of(used), used._version, used.data_ptr()
    with Noticing(), torch.device("meta"):
        assert of(used) == expected
    with torch.inference_mode():
        assert of(used) == expected
        assert of(torch.full((3,), 2.0)) == expected
    assert (used._version, used.data_ptr()) == (version, pointer)
    used.sum().backward()
    assert torch.equal(torch.default_generator.get_state(), state)


def test_descriptions():
    assert _fingerprint.describe(torch.zeros(2, 3)) == "2x3 float32"
    assert _fingerprint.describe(torch.tensor(True)) == "scalar bool"
    assert _fingerprint.describe(torch.nested.nested_tensor([torch.ones(1)])) == "nested float32"
