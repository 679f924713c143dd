"""Optimizers are watched from a step's beginning to its end, however it ends; closures are not.
"""

import functools
import types

import pytest

torch = pytest.importorskip("torch")

from tidepool.hooks import _optimizers  # noqa: E402

ENTER, END_STEP, LEAVE = 1, 0, 2


class Watched:
    """A base of optimizers for the test, PyTorch's own class stays; what the plugin was told."""

    def __init__(self):
        class Base(torch.optim.Optimizer):
            pass

        self.base, self.calls, self.compiling = Base, [], False

    def follow(self):
        plugin = types.SimpleNamespace(optimizer_scope=self.calls.append,
                                       rescan_operators=lambda: self.calls.append("rescan"))
        _optimizers.follow_optimizers(plugin, self.base, lambda: self.compiling)

    def make(self, kind=torch.optim.SGD, **options):
        weight = torch.nn.Parameter(torch.ones(3))
        weight.grad = torch.ones(3)
        # PyTorch wraps the step of a class when it first makes such an optimizer.
        step = kind.step.__wrapped__ if getattr(kind.step, "hooked", False) else kind.step
        return type(kind.__name__, (self.base, kind), {"step": step})([weight], **options)

    def taken(self):
        taken, self.calls[:] = list(self.calls), []
        return taken


@pytest.fixture
def watched():
    made = Watched()
    made.follow()
    return made


def test_a_step(watched):
    optimizer = watched.make()
    optimizer.step()
    optimizer.step()
    assert watched.taken() == ["rescan", ENTER, END_STEP] * 2


@pytest.mark.parametrize("by_name", [False, True])
def test_a_closure_is_not_the_optimizers(watched, by_name):
    optimizer = watched.make()

    def closure():
        watched.calls.append("closure")
        return torch.tensor(2.0)

    loss = optimizer.step(closure=closure) if by_name else optimizer.step(closure)
    assert loss == 2
    assert watched.taken() == ["rescan", ENTER, LEAVE, "closure", ENTER, END_STEP]


def test_a_closure_that_is_called_often(watched):
    optimizer = watched.make(torch.optim.LBFGS, max_iter=3, line_search_fn="strong_wolfe")
    weight = optimizer.param_groups[0]["params"][0]

    def closure():
        watched.calls.append("closure")
        optimizer.zero_grad()
        loss = (weight ** 4).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    taken = watched.taken()
    count = taken.count("closure")
    assert count > 2
    assert taken == ["rescan", ENTER, *[LEAVE, "closure", ENTER] * count, END_STEP]


@pytest.mark.parametrize("by_name", [False, True])
def test_objects_that_can_be_called_reach_the_step_as_they_are(watched, by_name):
    given = []

    class Mine(watched.base):
        def step(self, closure=None):
            given.append(closure)

    model = torch.nn.Linear(1, 1)
    optimizer = Mine(model.parameters(), {})
    optimizer.step(closure=model) if by_name else optimizer.step(model)
    assert given == [model] and watched.taken() == ["rescan", ENTER, END_STEP]


class Objective:
    """A closure with a state, which a step looks at."""

    def __init__(self, calls):
        self.calls, self.last = calls, None

    def __call__(self, value=1):
        self.calls.append("closure")
        self.last = value
        return value


@pytest.mark.parametrize("kind", ["object", "method", "partial", "partial of an object",
                                  "function"])
def test_a_step_can_look_at_its_closure(watched, kind):
    objective = Objective(watched.calls)

    def function():
        function.last = objective(5)
        return function.last

    closure, look = {
        "object": (objective, lambda given: given.last),
        "method": (objective.__call__, lambda given: given.__self__.last),
        "partial": (functools.partial(objective.__call__, 3), lambda given: given.args),
        "partial of an object": (functools.partial(objective, value=4),
                                 lambda given: given.func.last + given.keywords["value"]),
        "function": (function, lambda given: given.last)}[kind]
    seen = []

    class Mine(watched.base):
        def step(self, closure=None):
            closure()
            seen.append(look(closure))

    for _ in range(2):
        Mine([torch.nn.Parameter(torch.ones(1))], {}).step(closure)
    assert seen == [look(closure)] * 2
    assert watched.taken() == ["rescan", ENTER, LEAVE, "closure", ENTER, END_STEP] * 2


def test_what_cannot_be_called_in_another_way_is_called_as_it_is(watched):
    class Mine(watched.base):
        def step(self, closure=None):
            return closure()

    optimizer = Mine([torch.nn.Parameter(torch.ones(1))], {})
    assert optimizer.step("Built in".lower) == "built in" and optimizer.step(dict) == {}
    assert watched.taken() == ["rescan", ENTER, END_STEP] * 2


def test_a_step_that_raises_is_over(watched):
    optimizer = watched.make()
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    assert watched.taken() == ["rescan", ENTER, LEAVE, ENTER, LEAVE]
    optimizer.param_groups[0]["lr"] = "none"
    with pytest.raises(TypeError):
        optimizer.step()
    assert watched.taken() == ["rescan", ENTER, LEAVE]
    optimizer.register_step_post_hook(lambda *_: 1 / 0)
    optimizer.param_groups[0]["lr"] = 0.1
    with pytest.raises(ZeroDivisionError):
        optimizer.step()
    assert watched.taken() == ["rescan", ENTER, END_STEP]


def test_steps_within_steps(watched):
    inner = watched.make()

    class Wrapper(watched.base):
        def step(self, closure=None):
            watched.calls.append("outer")
            inner.step(closure)
            watched.calls.append("outer")

    outer = Wrapper([torch.nn.Parameter(torch.ones(3))], {})
    outer.step()
    assert watched.taken() == ["rescan", ENTER, "outer", "outer", END_STEP]
    outer.step(lambda: watched.calls.append("closure"))
    assert watched.taken() == ["rescan", ENTER, "outer", LEAVE, "closure", ENTER, "outer", END_STEP]
    # Another optimizer steps in a closure: a step of its own, and then the first goes on.
    watched.make().step(lambda: inner.step())
    assert watched.taken() == ["rescan", ENTER, LEAVE, "rescan", ENTER, END_STEP, ENTER, END_STEP]
    with pytest.raises(ZeroDivisionError):
        outer.step(lambda: 1 / 0)
    assert watched.taken()[-3:] == [LEAVE, ENTER, LEAVE]


def test_optimizers_from_before_and_what_schedulers_hold_of_them():
    watched = Watched()
    plain, scheduled = watched.make(), watched.make(torch.optim.Adam)
    torch.optim.lr_scheduler.ConstantLR(scheduled)
    watched.follow()
    for optimizer in (plain, scheduled, watched.make(torch.optim.Adagrad)):
        optimizer.step()
        assert watched.taken() == ["rescan", ENTER, END_STEP]


def test_while_a_step_is_compiled_nothing_is_told(watched):
    optimizer = watched.make()
    watched.compiling = True
    optimizer.step(lambda: watched.calls.append("closure"))
    assert watched.taken() == ["closure"]
