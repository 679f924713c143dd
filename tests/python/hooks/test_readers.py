"""Python's readers of raw pointers restore first, and mark what leaves. On the real PyTorch.

The plugin is a stand-in: "evicted" is PyTorch's own refusal to give out a storage's pointer, which
is what an evicted storage has.
"""

import copy
import functools
import gc
import io
import pickle
import types

import pytest

torch = pytest.importorskip("torch")

from tidepool.hooks import _readers  # noqa: E402
from tidepool.job import _plugin  # noqa: E402

CAN_EVICT = hasattr(torch._C, "_clear_storage_data_ptr_access_error_msg")


class StandIn:
    """Notes what the wrappers ask of the plugin, and restores what `evict` evicted."""

    def __init__(self):
        self.calls = []
        self.evicted = set()
        self.tracked = set()
        self.refusal = None
        self.held = []
        names = dict.fromkeys(_plugin.Plugin.signatures, self.other)
        names |= {f"tidepool_{kind}": self.access(kind)
                  for kind in ("make_resident", "written", "escape")}
        names["tidepool_hold"] = functools.partial(self.hold, "hold")
        names["tidepool_hold_to_write"] = functools.partial(self.hold, "hold to write")
        names["tidepool_let_go"] = lambda storage, held: self.held.remove((storage, held))
        names["tidepool_state"] = lambda storage: self.state(storage)
        self.library = types.SimpleNamespace(
            **{name: (lambda *args, call=call: call(*args)) for name, call in names.items()})

    def other(self, *_):
        return 0

    def state(self, storage):
        return 3 if storage in self.evicted else 2 if storage in self.tracked else 0

    def access(self, kind):
        def call(storage, message, size):
            assert storage
            self.calls.append((kind, storage))
            if self.refusal:
                message.value = self.refusal
                return 1
            if storage in self.evicted:
                torch._C._clear_storage_data_ptr_access_error_msg(storage)
                self.evicted.discard(storage)
            return 0
        return call

    def hold(self, kind, storage, held, message, size):
        failed = self.access(kind)(storage, message, size)
        if not failed:
            held._obj.value = storage + 1
            self.held.append((storage, storage + 1))
        return failed

    def evict(self, tensor):
        storage = tensor.untyped_storage()._cdata
        torch._C._set_storage_data_ptr_access_error_msg(storage, "evicted")
        self.evicted.add(storage)


@pytest.fixture
def plugin():
    stand_in = StandIn()
    readers = _readers.Readers(_plugin.Plugin(stand_in.library), torch)
    readers.install()
    yield stand_in
    readers.uninstall()


def save(tensor, **options):
    file = io.BytesIO()
    torch.save(tensor, file, **options)
    file.seek(0)
    return torch.load(file)




ACCESSES = {
    "tolist": (lambda t, s: t.tolist(), "hold"),
    "save": (lambda t, s: save(t).tolist(), None),
    "legacy save": (
        lambda t, s: save(t, _use_new_zipfile_serialization=False).tolist(), None),
    "pickle": (lambda t, s: pickle.loads(pickle.dumps(t)).tolist(), None),
    "deepcopy": (lambda t, s: copy.deepcopy(t).tolist(), None),
    "data_ptr": (lambda t, s: t.data_ptr(), "escape"),
    "data_ptr of a parameter": (lambda t, s: torch.nn.Parameter(t).data_ptr(), "written"),
    "const_data_ptr": (
        lambda t, s: getattr(t, "const_data_ptr", t.data_ptr)(), "written"),
    "apply_": (lambda t, s: t.apply_(lambda x: x).tolist(), "written"),
    "map_": (lambda t, s: t.map_(t, lambda x, y: x).tolist(), "written"),
    "numpy": (lambda t, s: t.numpy().tolist(), "escape"),
    "array": (lambda t, s: t.__array__().tolist(), "escape"),
    "dlpack": (lambda t, s: torch.from_dlpack(t).tolist(), "escape"),
    "capsule": (lambda t, s: str(t.__dlpack__())[:8], "escape"),
    "versioned capsule": (
        lambda t, s: str(t.__dlpack__(max_version=(1, 0)))[:8], "escape"),
    "to_dlpack": (lambda t, s: str(torch.utils.dlpack.to_dlpack(t))[:8], "escape"),
    "torch.to_dlpack": (lambda t, s: str(torch.to_dlpack(t))[:8], "escape"),
    "share": (lambda t, s: t.share_memory_().tolist(), "escape"),
    "share a storage": (lambda t, s: s.share_memory_().tolist(), "escape"),
    "storage item": (lambda t, s: s[4], "hold"),
    "storage slice": (lambda t, s: s[4:8].tolist(), "escape"),
    "storage setitem": (lambda t, s: s.__setitem__(0, 1), "hold to write"),
    "storage fill": (lambda t, s: s.fill_(0).tolist(), "hold to write"),
    "storage list": (lambda t, s: s.tolist(), "hold"),
    "storage bytes": (lambda t, s: bytes(s), "hold"),
    "storage copy_": (lambda t, s: torch.UntypedStorage(len(s)).copy_(s).tolist(), "hold"),
    "storage copy_ by name": (
        lambda t, s: torch.UntypedStorage(len(s)).copy_(src=s).tolist(), "hold"),
    "map_ by name": (
        lambda t, s: torch.zeros(6).map_(other=t, callable=lambda x, y: y).tolist(),
        "hold"),
    "storage clone": (lambda t, s: s.clone().tolist(), "hold"),
    "storage cpu": (lambda t, s: s.cpu().tolist(), None),
    "storage data_ptr": (lambda t, s: s.data_ptr(), "written"),
    "storage resize": (lambda t, s: s.resize_(4), "written"),
    "storage resize to nothing": (lambda t, s: s.resize_(0), "hold"),
    "storage byteswap": (lambda t, s: s.byteswap(torch.float32), "hold to write"),
    "storage filename": (lambda t, s: s.filename, "hold"),
    "typed list": (lambda t, s: t.storage().untyped().tolist(), "hold"),
    "address": (lambda t, s: torch._C._data_address(t) and None, "escape"),
    "is_shared": (lambda t, s: t.is_shared(), None),
    "storage is_shared": (lambda t, s: s.is_shared(), None),
    "is_pinned": (lambda t, s: t.is_pinned(), None),
}


def result(access, tensor):
    value = access(tensor, tensor.untyped_storage())
    return value if isinstance(value, (int, str, list, bool, bytes, type(None))) else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ACCESSES)
def test_access(plugin, name):
    access, expected = ACCESSES[name]
    tensor, twin = torch.arange(6.0), torch.arange(6.0)
    storage = tensor.untyped_storage()._cdata
    wanted = result(access, twin)
    plugin.calls.clear()
    if CAN_EVICT:
        plugin.evict(tensor)
    got = result(access, tensor)
    if "data_ptr" not in name:  # the tensors' addresses differ
        assert got == wanted
    kinds = {kind for kind, at in plugin.calls if at == storage}
    if expected:
        assert expected in kinds
    if expected != "escape":
        assert "escape" not in kinds


def test_operands_are_held_until_the_call_is_over(plugin):
    """What is only restored may be evicted again when the next operand is."""
    target, first, second = torch.zeros(2), torch.arange(2.0), torch.ones(2)
    held = []

    def add(_, left, right):
        held.append({storage for storage, _ in plugin.held})
        return left + right

    assert target.map2_(first, second, add).tolist() == [1, 2]
    operands = {tensor.untyped_storage()._cdata for tensor in (target, first, second)}
    assert held == [operands, operands]
    assert not plugin.held


def test_everything_is_put_back():
    def table():
        return [dict(owner.__dict__) for owner in (torch.Tensor, torch.UntypedStorage,
                                                   torch.Generator)] + [
            torch._C._to_dlpack, torch.utils.dlpack.to_dlpack, torch.to_dlpack,
            torch._C.PyTorchFileWriter.write_record]

    before = table()
    readers = _readers.Readers(_plugin.Plugin(StandIn().library), torch)
    readers.install()
    assert torch.Tensor.numpy is not before[0].get("numpy")
    readers.uninstall()
    assert table() == before


@pytest.mark.skipif(not CAN_EVICT, reason="this PyTorch cannot take an eviction back")
def test_what_is_read_stays_until_it_has_been_read(plugin):
    tensor = torch.arange(3.0)
    plugin.evict(tensor)
    storage = tensor.untyped_storage()
    seen = []

    class File(io.BytesIO):
        def write(self, data):
            seen.append(list(plugin.held))
            return super().write(data)

    torch.save(tensor, File())
    assert [(storage._cdata, storage._cdata + 1)] in seen
    assert plugin.held == []
    with pytest.raises(IndexError):
        storage[1000]
    assert plugin.held == []


def test_errors_of_the_plugin_are_raised_as_their_kind(plugin):
    plugin.refusal = b"out of memory: tried to restore 3 MiB"
    with pytest.raises(torch.OutOfMemoryError, match="3 MiB"):
        torch.ones(3).tolist()
    plugin.refusal = b"a replay failed"
    with pytest.raises(RuntimeError, match="a replay failed") as caught:
        torch.ones(3).numpy()
    assert not isinstance(caught.value, torch.OutOfMemoryError)


def test_wrappers_are_found_by_their_names(plugin):
    for wrapper in (torch.Tensor.tolist, torch.UntypedStorage.fill_, torch.UntypedStorage.copy_):
        assert pickle.loads(pickle.dumps(wrapper)) is wrapper


def test_wrong_arguments_get_the_answers_of_pytorch(plugin):
    with pytest.raises(TypeError, match=r"numpy\(\) takes 0 positional arguments"):
        torch.ones(2).numpy(1)
    with pytest.raises(TypeError, match=r"data_ptr\(\) takes no arguments"):
        torch.ones(2).data_ptr(1)
    with pytest.raises(RuntimeError, match="device"):
        torch.ones(2).is_pinned("a printer")


def test_tracked_storages_are_neither_shared_nor_pinned_without_a_look(plugin):
    tensor = torch.ones(3)
    shared = torch.ones(3).share_memory_()
    plugin.tracked.add(tensor.untyped_storage()._cdata)
    plugin.calls.clear()
    assert not tensor.is_shared() and not tensor.is_pinned() and plugin.calls == []
    assert shared.is_shared()
    if hasattr(torch._C, "_is_cow_tensor"):
        assert not torch._C._is_cow_tensor(tensor) and plugin.calls == []


def test_what_raises_gives_nothing_away(plugin):
    tensor = torch.ones(3)
    assert not hasattr(tensor, "__cuda_array_interface__")
    assert plugin.calls == []


def test_an_array_of_a_conjugated_tensor_is_of_the_resolved_one(plugin):
    tensor = torch.full((3,), 1 + 2j).conj()
    array = tensor.numpy(force=True)
    (kind, storage), = plugin.calls
    assert kind == "escape" and storage != tensor.untyped_storage()._cdata
    assert array.tolist() == tensor.resolve_conj().tolist()


@pytest.mark.skipif(not CAN_EVICT, reason="this PyTorch cannot take an eviction back")
def test_states_of_generators_are_read(plugin):
    generator = torch.Generator()
    state = generator.get_state()
    first = torch.rand(3, generator=generator)
    plugin.evict(state)
    assert generator.set_state(state) is generator
    assert torch.equal(torch.rand(3, generator=generator), first)
    pickled = tuple(state if isinstance(each, torch.Tensor) else each
                    for each in generator.__reduce__()[2])
    plugin.evict(state)
    generator.__setstate__(pickled)
    assert torch.equal(torch.rand(3, generator=generator), first)


def test_what_a_kernel_beside_the_dispatcher_reads_stays(plugin):
    tensor = torch.ones(3)
    launch = torch._C._cuda_jiterator_compile_and_launch_kernel
    code = "template <typename T> T twice(T x) { return x + x; }"
    plugin.calls.clear()
    with pytest.raises((RuntimeError, AssertionError, TypeError)):
        launch(code, "twice", False, 1, (tensor,), {})  # not on this device
    assert plugin.calls == [("written", tensor.untyped_storage()._cdata)]


class Labelled(torch.Tensor):
    """A subclass with a real storage."""


class Logged(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(function.__name__)
        return function(*args, **(kwargs or {}))


def test_modes_and_subclasses_see_what_they_saw_and_storages_are_still_marked(plugin):
    tensor = torch.ones(3)
    with Logged() as mode:
        tensor.numpy()
        tensor.tolist()
    assert mode.names == ["numpy", "tolist"]
    assert [kind for kind, _ in plugin.calls] == ["escape", "hold"]
    plugin.calls.clear()
    labelled = torch.ones(3).as_subclass(Labelled)
    labelled.numpy()
    assert ("escape", labelled.untyped_storage()._cdata) in plugin.calls
    plugin.calls.clear()
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.data_ptr()
    assert [kind for kind, _ in plugin.calls] == ["written"]


def test_what_has_no_memory_of_ours_passes_through(plugin):
    from torch._subclasses.fake_tensor import FakeTensorMode

    meta = torch.ones(3, device="meta")
    assert not meta.is_pinned() and meta.data_ptr() == 0
    sparse = torch.ones(3).to_sparse()
    with pytest.raises((RuntimeError, TypeError)):
        sparse.numpy()
    with FakeTensorMode():
        fake = torch.ones(3)
        fake.is_pinned()
        with pytest.raises(RuntimeError):
            fake.tolist()
    torch.func.grad(lambda x: x.sum() * (2 if x.is_pinned() else 1))(torch.ones(2))
    with pytest.raises((RuntimeError, TypeError)):
        torch.func.vmap(lambda x: x.numpy())(torch.ones(2, 3))
    assert all(kind != "make_resident" for kind, _ in plugin.calls)


def test_only_what_succeeds_escapes(plugin):
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(3, requires_grad=True).numpy()
    assert plugin.calls == []
    with pytest.raises(TypeError):
        torch.ones(3).numpy(1)


def test_wrappers_look_like_what_they_wrap(plugin):
    assert torch.Tensor.tolist.__name__ == "tolist" and "tolist()" in torch.Tensor.tolist.__doc__
    assert pickle.loads(pickle.dumps(torch.Tensor.tolist)) is torch.Tensor.tolist
    assert torch.overrides.is_tensor_method_or_property(torch.Tensor.numpy)


@pytest.mark.filterwarnings("error")
def test_compiled_functions_still_work(plugin):
    def function(x):
        y = x * 2
        return y + sum(y.tolist()) + y.detach().numpy().sum()

    compiled = torch.compile(function, backend="eager")
    x = torch.arange(4.0)
    assert torch.equal(compiled(x), function(x))
    whole = torch.compile(lambda x: (x * 3).relu(), backend="eager", fullgraph=True)
    assert torch.equal(whole(x), (x * 3).relu())


def test_no_reference_is_kept(plugin):
    tensor = torch.ones(3)
    tensor.tolist()
    tensor.data_ptr()
    tensor.numpy()
    assert torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) <= 2
    count = len(gc.get_referrers(tensor))
    tensor.tolist()
    assert len(gc.get_referrers(tensor)) == count
