"""Compiled graphs are called through an operator that writes and draws nothing."""

import contextlib
import types

import pytest
from tidepool.hooks import _compiled_calls

torch = pytest.importorskip("torch")

SOURCE = """
fused = async_compile.cpp_pybinding(['float*', 'const float*', 'float*'], r'''{text}''')

class Runner:
    def call(self, args):
        statistics, x, count = args
        args.clear()
        buf0 = empty_strided_cpu((2, 3), (3, 1), torch.float32)
        buf1 = empty_strided_cpu((2, ), (1, ), torch.int64)
        aten.randint.low_out(-8, 7, [2], out=buf1)
        fused(statistics, x, buf0)
        buf2 = extern_kernels.{operator}(buf0, x, out=buf0)
        return (statistics, buf0, count, buf1, reinterpret_tensor(buf0, (3, ), (1, ), 1),
                reinterpret_tensor(x, (2, ), (1, ), 1), None, )
"""
RUNS = SOURCE.split("def call")[1]


class Plugin:
    """Notes what it is told."""

    def __init__(self, knows=True):
        self.calls, self.knows = [], knows
        self.given_up = []

    def known_operators(self, names, drawing):
        self.calls.append(tuple(names))
        assert set(drawing) <= set(names)
        return (lambda: self.knows) if self.knows is not None else None

    @contextlib.contextmanager
    def beside(self, storages):
        self.calls.append(("beside", len(storages)))
        yield

    @contextlib.contextmanager
    def undisturbed(self):
        yield

    def gives_up(self, storage):
        self.given_up.append(storage)

    def written(self, storage):
        self.calls.append(("written", storage))

    def made_by_graph(self, storages):
        self.calls.append(("made", len(storages)))


class Owner:
    """Stands for the compiler's object of a graph."""

    def __init__(self, text="", operator="mm", is_backward=False):
        self.source_code = SOURCE.format(text=text, operator=operator)
        self.fx_kwargs = {"is_backward": is_backward}
        self.runs = 0

        def fused(statistics, x, out):
            self.runs += 1
            statistics += x.sum()
            out.copy_(x * 2)

        guards = torch._C._dynamo.guards
        names = {"torch": torch, "aten": torch.ops.aten, "fused": fused,
                 "empty_strided_cpu": guards._empty_strided_cpu,
                 "reinterpret_tensor": guards._reinterpret_tensor,
                 "extern_kernels": types.SimpleNamespace(mm=lambda a, b, out: out.add_(b))}
        exec("def call" + RUNS.format(operator=operator).replace("self, ", ""), names)
        self.current_callable = names["call"]

    def __call__(self, inputs):
        return self.current_callable(inputs)


@pytest.fixture
def plugin():
    return Plugin()


@pytest.fixture
def graphs(plugin):
    made = _compiled_calls.Graphs(plugin, torch, storage_of)
    yield made
    if made._library:
        made._library._destroy()  # the operator can be defined again


def storage_of(value):
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else 0


def inputs_of_a_call():
    return [torch.ones(3), torch.arange(6.0).reshape(2, 3), 5]


def called(graphs, owner, inputs):
    return graphs.call(graphs.of(owner), lambda self, values: self(values), owner, inputs)


def plain_and_called(graphs, owner):
    """Return what a graph gives without us and with us, its inputs, and the random states."""
    outcomes = []
    for run in (Owner.__call__, lambda each, values: called(graphs, each, values)):
        torch.manual_seed(3)
        inputs = inputs_of_a_call()
        kept = list(inputs)
        outcomes.append((run(owner, inputs), kept, torch.get_rng_state()))
        assert inputs == []  # they may go while the graph runs
    return outcomes


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other) and one.stride() == other.stride()
    return one == other


def test_a_call_gives_what_the_graph_gives(graphs, plugin):
    (plain, before, state), (ours, inputs, our_state) = plain_and_called(graphs, Owner())
    assert all(map(equal, plain, ours)) and all(map(equal, before, inputs))
    assert torch.equal(state, our_state)
    assert ours[0] is inputs[0] and storage_of(ours[4]) == storage_of(ours[1])
    assert storage_of(ours[5]) == storage_of(inputs[1])
    assert graphs.report() == {"compiled": {"graphs": 1, "kept": {}}}
    assert plugin.calls == [("aten::mm.out",)]


def test_a_first_call_is_recorded_under_the_mode_that_looks_at_custom_operators(graphs):
    pytest.importorskip("torch._dynamo")  # else what follows imports itself
    from torch._functorch._aot_autograd import runtime_wrappers

    seen = []

    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with getattr(runtime_wrappers, _compiled_calls.FIRST_CALL_MODE)():
        assert called(graphs, Owner(), inputs_of_a_call()) is not None
    inputs = inputs_of_a_call()
    with Watching():  # a mode of the job's would see our operator
        assert called(graphs, Owner(), inputs) is None
    assert seen == []


def test_copies_of_what_it_writes_are_kept_for_its_results(graphs, plugin):
    owner, seen = Owner(), []
    graphs.of(owner)
    operator = graphs._operator
    graphs._operator = lambda *args: seen.append(args[2]) or operator(*args)
    inputs = inputs_of_a_call()
    statistics = inputs[0]
    called(graphs, owner, inputs)
    (tensors,) = seen
    assert plugin.given_up == [storage_of(tensors[0])]
    assert storage_of(statistics) not in plugin.given_up


def test_a_replay_writes_and_draws_nothing(graphs):
    owner, seen = Owner(), []
    graph = graphs.of(owner)
    operator = graphs._operator
    graphs._operator = lambda *args: seen.append(args) or operator(*args)
    results = called(graphs, owner, inputs_of_a_call())
    state = torch.get_rng_state()
    (number, token, tensors, numbers, count), = seen
    copies = [tensor.clone() for tensor in tensors]
    again = graphs._run(number, token, tensors, numbers, count)
    assert number == graph.number and count == len(again) == 3
    assert torch.equal(again[0], results[1]) and torch.equal(again[1], results[3])
    assert all(map(torch.equal, copies, tensors)) and torch.equal(state, torch.get_rng_state())
    assert owner.runs == 2


@pytest.mark.parametrize("owner,reason", [
    ({"text": "atomic_add(a, b)"}, "additions in any order"), ({"is_backward": True}, "backward")])
def test_graphs_that_are_not_recorded_have_their_inputs_held(graphs, plugin, owner, reason):
    (plain, *_), (ours, inputs, _) = plain_and_called(graphs, Owner(**owner))
    assert all(map(equal, plain, ours)) and graphs.report()["compiled"]["kept"] == {reason: 1}
    assert plugin.calls[1:] == [("beside", 3), ("written", storage_of(inputs[0])), ("made", 7)]


def test_what_is_left_to_the_caller(graphs, plugin):
    assert called(graphs, Owner(operator="special"), inputs_of_a_call()) is None
    assert graphs.report()["compiled"]["kept"] == {"extern_kernels.special": 1}
    known = Owner()
    for other in (2.5, None, torch.nn.Module()):
        assert called(graphs, known, [*inputs_of_a_call()[:2], other]) is None
    plugin.knows = False  # a kernel has been replaced
    assert called(graphs, known, inputs_of_a_call()) is None
    plugin.knows = None
    assert called(graphs, Owner(), inputs_of_a_call()) is None
    assert graphs.report()["compiled"]["kept"]["operators that are not trusted"] == 1


@pytest.mark.parametrize("written", [
    torch.ones(6)[::2], torch.ones(_compiled_calls.MOST_WRITTEN_BYTES)])
def test_inputs_that_cannot_be_copied_are_written_in_place(graphs, plugin, written):
    called(graphs, Owner(), [written, *inputs_of_a_call()[1:]])
    assert ("written", storage_of(written)) in plugin.calls


def test_an_input_that_shares_memory_with_a_written_one(graphs, plugin):
    memory = torch.ones(9)
    called(graphs, Owner(), [memory[:3], memory[3:].view(2, 3), 5])
    assert ("written", storage_of(memory)) in plugin.calls


def test_an_error_inside_is_the_jobs(graphs):
    with pytest.raises(RuntimeError, match="size"):
        called(graphs, Owner(), [torch.ones(2), torch.ones(5, 5), 5])
    assert graphs._calls == {}


def test_a_graph_goes_with_its_owner_but_for_records(graphs):
    owner = Owner()
    first = graphs.of(owner)
    assert graphs.of(owner) is first
    del owner
    assert graphs._by_owner == {} or first.owner() is not None  # a frame may still hold it
    assert graphs._all == [first]


def aligning(owner):
    """Return an owner's code inside of the compiler's function that aligns inputs."""
    utils = pytest.importorskip("torch._inductor.utils")
    return utils.align_inputs_from_check_idxs(owner.current_callable, [1], frozenset())


def test_seeds_are_handed_to_code_whose_inputs_are_aligned(graphs):
    owner = Owner()
    owner.current_callable = aligning(owner)
    (plain, *_), (ours, *_) = plain_and_called(graphs, owner)
    assert all(map(equal, plain, ours)) and graphs.of(owner).kept == ""


def test_code_inside_of_something_else_draws_itself(graphs):
    owner = Owner()
    inner = owner.current_callable
    owner.current_callable = lambda inputs: inner(inputs)
    assert graphs.of(owner).kept == "draws that cannot be handed to it"


ON_CUDA = """
class Runner:
    def call(self, args):
        x, = args
        args.clear()
        with torch.cuda._DeviceGuard(0):
            torch.cuda.set_device(0)
            buf0 = empty_strided_cuda((2, ), (1, ), torch.float32)
        return (buf0, )
"""


def test_graphs_on_cuda_that_are_left_to_the_caller(plugin):
    graphs = _compiled_calls.Graphs(plugin, torch, storage_of, "cuda")
    try:
        owner = Owner()
        owner.source_code = ON_CUDA
        captured = Owner()
        captured.source_code, inner = ON_CUDA, captured.current_callable
        captured.current_callable = lambda inputs: inner(inputs)  # as for CUDA graphs
        assert graphs.of(owner).kept == ""
        assert graphs.of(captured).kept == "a wrapper around its code"
        assert graphs.of(captured)._callable is None  # it owns what CUDA graphs have taken
        assert called(graphs, captured, [torch.ones(2)]) is None
        assert called(graphs, owner, [torch.ones(2)]) is None  # on another device
        assert plugin.calls == [(), ()]  # nothing is held: its kernels run on when it has returned
    finally:
        graphs._library._destroy()
