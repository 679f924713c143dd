"""What operators do unannounced is noticed: planted liars are found by name, honest ones pass."""

import itertools

import evidence
import pytest
import torch
from comparison import Case, Counts
from evidence import Call, Watch, Watcher

LIBRARY = torch.library.Library("evidence_test", "DEF")
RUNS = itertools.count()
CACHE: dict[str, torch.Tensor] = {}


def planted(schema: str, tags: tuple = ()):
    """Define an operator of a schema by the function that follows."""
    def define(function):
        LIBRARY.define(schema, tags=tags)
        LIBRARY.impl(schema.split("(")[0], function, "CPU")
        return function
    return define


@planted("writes_input(Tensor x, Tensor statistics) -> Tensor")
def writes_input(x, statistics):
    statistics.add_(x.mean())
    return x + 1


@planted("writes_part(Tensor x) -> Tensor")
def writes_part(x):
    x[-1:].mul_(2)
    return x + 1


@planted("writes_around_view(Tensor x) -> Tensor")
def writes_around_view(x):
    x.as_strided((1,), (1,), x.storage_offset() - 1).mul_(2)
    return x + 1


@planted("writes_beside_output(Tensor(a!) x) -> Tensor(a!)")
def writes_beside_output(x):
    x.as_strided((1,), (1,), x.storage_offset() - 1).mul_(2)
    return x.add_(1)


@planted("writes_in_list(Tensor[] xs) -> Tensor")
def writes_in_list(xs):
    xs[1].zero_()
    return xs[0] + 1


@planted("turns_input(Tensor x) -> Tensor")
def turns_input(x):
    result = x + 1
    x.t_()
    return result


@planted("returns_input(Tensor x) -> Tensor")
def returns_input(x):
    return x


@planted("returns_view(Tensor x) -> Tensor")
def returns_view(x):
    return x[1:]


@planted("returns_twice(Tensor x) -> (Tensor, Tensor)")
def returns_twice(x):
    result = x + 1
    return result, result[1:]


@planted("returns_cached(Tensor x) -> Tensor")
def returns_cached(x):
    return CACHE.setdefault("result", torch.ones(3))


@planted("counts(Tensor x) -> Tensor")
def counts(x):
    return x + next(RUNS)


@planted("counts_into(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
def counts_into(x, *, out):
    return out.copy_(x + next(RUNS))


@planted("forgets_to_write(Tensor x) -> Tensor")
def forgets_to_write(x):
    return torch.empty(9 << 20)  # so large that it comes from the system, full of zeros


@planted("turns_result(Tensor x) -> Tensor")
def turns_result(x):
    result = torch.stack([x, x])
    return result.t().contiguous().t() if next(RUNS) % 2 else result


@planted("draws(Tensor x) -> Tensor")
def draws(x):
    return x + torch.rand(3)


@planted("draws_for_nothing(Tensor x) -> Tensor")
def draws_for_nothing(x):
    torch.rand(3)
    return x + 1


@planted("varies_on_threads(Tensor x) -> Tensor")
def varies_on_threads(x):
    many = x.numel() >= evidence.PARALLEL and torch.get_num_threads() > 1
    return x + (next(RUNS) if many else 0)


@planted("honest(Tensor x, Tensor(a!) y) -> Tensor")
def honest(x, y):
    return x + y.add_(1)


@planted("honest_draw(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
def honest_draw(x):
    return x + torch.rand(3)


@planted("honest_view(Tensor(a) x) -> Tensor(a)")
def honest_view(x):
    return x[1:]


def operator(name: str):
    return getattr(torch.ops.evidence_test, name)


@pytest.fixture(autouse=True)
def one_thread():
    """Watch on one thread, as the job does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def noticed(function) -> dict[str, set[str]]:
    """Return what is noticed in a function's calls, by overload."""
    with Watch() as watch:
        function()
    return {name: what for name, what in watch.noticed.items() if what}


def square() -> torch.Tensor:
    return torch.arange(12.0).view(3, 4)[1:]


LIARS = {
    "writes_input": (lambda f: f(torch.rand(3), torch.zeros(1)), "hidden_write(statistics)"),
    "writes_part": (lambda f: f(torch.ones(3)), "hidden_write(x)"),
    "writes_around_view": (lambda f: f(square()), "hidden_write(x)"),
    "writes_beside_output": (lambda f: f(square()), "hidden_write(x)"),
    "writes_in_list": (lambda f: f([torch.ones(3), torch.ones(3)]), "hidden_write(xs)"),
    "turns_input": (lambda f: f(torch.ones(2, 3)), "hidden_write(x)"),
    "returns_input": (lambda f: f(torch.ones(3)), "hidden_alias"),
    "returns_view": (lambda f: f(torch.ones(3)), "hidden_alias"),
    "returns_twice": (lambda f: f(torch.ones(3)), "hidden_alias"),
    "returns_cached": (lambda f: f(torch.ones(3)), "hidden_alias"),
    "counts": (lambda f: f(torch.ones(3)), "varies"),
    "counts_into": (lambda f: f(torch.ones(3), out=torch.ones(3)), "varies"),
    "forgets_to_write": (lambda f: f(torch.ones(3)), "varies"),
    "turns_result": (lambda f: f(torch.ones(3)), "varies"),
    "draws": (lambda f: f(torch.ones(3)), "hidden_draw"),
    "draws_for_nothing": (lambda f: f(torch.ones(3)), "hidden_draw"),
    "varies_on_threads": (lambda f: f(torch.ones(3)), "varies_with_threads"),
}


@pytest.mark.parametrize("name", LIARS)
def test_a_liar_is_noticed(name):
    call, what = LIARS[name]
    found = noticed(lambda: call(operator(name)))
    assert found == {f"evidence_test::{name}": {what}}


@pytest.mark.parametrize(("name", "call"), [
    ("honest", lambda f: f(torch.ones(3), torch.ones(6)[1:4])),
    ("honest_draw", lambda f: f(torch.ones(3))), ("honest_view", lambda f: f(torch.ones(3)))])
def test_what_the_schema_says_is_no_lie(name, call):
    assert noticed(lambda: call(operator(name))) == {}


def test_a_function_that_changes_its_list_is_noticed():
    def function(x, sizes):
        sizes.append(1)
        return x.reshape(2, -1) + 1

    call = Call(torch.ops.aten.view_copy.default._schema, function, (torch.ones(4), [2, 2]), {})
    watch = Watch()
    assert watch.watch(call, 1) is not None
    assert watch.noticed["aten::view_copy"] == {"hidden_write(size)"}


def test_known_liars_of_pytorch_are_found():
    def run():
        x, statistics = torch.randn(4, 3), (torch.zeros(3), torch.ones(3))
        torch.native_batch_norm(x, None, None, *statistics, True, 0.1, 1e-5)
        torch.batch_norm_update_stats(x, *statistics, 0.1)

    written = {"hidden_write(running_mean)", "hidden_write(running_var)"}
    assert noticed(run) == dict.fromkeys(
        ("aten::native_batch_norm", "aten::native_batch_norm.out", "aten::batch_norm_update_stats",
         "aten::batch_norm_update_stats.out"), written)


def test_sums_in_the_order_of_threads_are_found(monkeypatch):
    def run():
        indices = (torch.zeros(1 << 18, dtype=torch.int64),)
        torch.zeros(2).index_put_(indices, torch.randn(1 << 18), accumulate=True)

    monkeypatch.setattr(evidence, "THREADED_RUNS", 20)
    found = noticed(run)
    assert found["aten::index_put_"] == {"varies_with_threads"}


def test_forms_of_an_operator_are_watched_with_it():
    with Watch() as watch:
        torch.ones(3) * 2
        torch.ones(3).index_copy(0, torch.tensor([1]), torch.ones(1))
    assert "aten::index_copy_" in watch.types
    assert {"aten::mul.Tensor", "aten::mul.out", "aten::mul_.Tensor", "aten::mul.Scalar",
            "aten::mul_.Scalar"} <= set(watch.types)
    assert watch.noticed["aten::mul_.Tensor"] == set()


def test_a_job_is_left_as_it_is():
    def run():
        torch.manual_seed(3)
        x = torch.randn(8, requires_grad=True)
        y = torch.nn.functional.dropout(x * 2, 0.5)
        y.add_(1).cumsum_(0)
        y[::2].mul_(3)
        return [*torch.autograd.grad(y.sum(), x), y, torch.rand(2)]

    expected = run()
    with Watch() as watch:
        got = run()
    assert all(map(torch.equal, expected, got))
    assert {"aten::cumsum_", "aten::mul.Tensor", "aten::native_dropout_backward"} & set(watch.types)
    assert not any(watch.noticed.values())


def test_types_are_told_apart_and_groups_begin_anew():
    watcher = Watcher()
    for dtype in (torch.float32, torch.bfloat16):
        watcher.check(Case("", lambda dtype=dtype: torch.ones(3, dtype=dtype).exp()), Counts())
    assert watcher.found()["types"]["aten::exp"] == ["bfloat16", "float32"]
    assert watcher.found() == {"types": {}, "noticed": {}}


def test_operands_that_share_memory_share_it_in_copies():
    x = torch.arange(6.0)
    copies = evidence.Copies({"a": x, "b": [x[2:], torch.ones(1)]})
    first, (second, other) = copies.arguments["a"], copies.arguments["b"]
    first.zero_()
    assert second.sum() == 0 and x.sum() == 15 and other.item() == 1
