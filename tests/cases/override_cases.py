"""Tensors and modes of the job's that override functions of PyTorch's."""

import torch


class PassedOver(torch.Tensor):
    """Has each function run as if it did not override it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        pass_over = getattr(torch.overrides, "redispatch_function", None)
        if pass_over is None:  # before 2.15
            return super().__torch_function__(function, types, args, kwargs or {})
        return pass_over(function, types, args, kwargs or {})


def case_subclass_that_is_passed_over():
    x = (torch.randn(6) * 2).as_subclass(PassedOver)
    y = (torch.randn(6) * 2).as_subclass(PassedOver)
    written = (torch.randn(6) * 2).as_subclass(PassedOver)
    written.apply_(lambda each: each + 1)
    written.map_(y, lambda each, other: each * other)
    return (x.tolist(), x.data_ptr() != 0, y.numpy().tolist(), x.is_pinned(),
            (written * 2).as_subclass(torch.Tensor), str(y * 2))


class Seven(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.Tensor.mul:
            return torch.full((1,), 7.0)
        return super().__torch_function__(function, types, args, kwargs or {})


class Tenfold(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 10 if function is torch.Tensor.sum else result


class Untouched(torch.nn.Parameter):
    """A subclass without overrides."""


def case_callbacks_that_use_overrides():
    unit = torch.ones(3).as_subclass(Seven)

    def by_subclass(value):
        return value + float(torch.Tensor.mul(unit, 1)[0])

    def by_mode(value):
        with Tenfold():
            return value + float(torch.ones(3).sum())

    results = []
    for callback in (by_subclass, by_mode):
        tensor = Untouched(torch.ones(2) * 1, requires_grad=False)
        tensor.apply_(callback)
        tensor.map_(tensor, lambda each, other, callback=callback: other + callback(each))
        results.append(tensor.tolist())
    return results


class PassingOn(torch.overrides.TorchFunctionMode):
    """A mode that sees what functions call inside, as PyTorch documents it."""

    def __init__(self):
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function.__name__)
        pass_over = getattr(torch.overrides, "redispatch_function", None)
        if pass_over is None:  # before 2.15
            return function(*args, **(kwargs or {}))
        with self:
            return pass_over(function, types, args, kwargs or {})


def case_mode_that_is_passed_over():
    x, z = torch.randn(4) * 2, torch.randn(4, dtype=torch.complex64) * 2
    with PassingOn() as mode:
        results = (x.tolist(), x.numpy().tolist(), x.is_pinned(), x.data_ptr() != 0,
                   (x * 1).apply_(lambda each: each + 1),
                   (x * 1).map_(x, lambda each, other: each + other), z.conj().tolist(),
                   z.conj().numpy(force=True).tolist())
    return results, mode.seen


class PassingOver(torch.overrides.TorchFunctionMode):
    """A mode that does not see what functions call inside."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        pass_over = getattr(torch.overrides, "redispatch_function", None)
        if pass_over is None:  # before 2.15
            return function(*args, **(kwargs or {}))
        return pass_over(function, types, args, kwargs or {})


def case_mode_that_does_not_look_inside():
    x, parameter = torch.randn(4) * 2, torch.nn.Parameter(torch.randn(4) * 2)
    other = (torch.randn(4) * 2).as_subclass(PassedOver)
    written = torch.zeros(4) + 1
    written.map_(other, lambda each, other: each + other)
    results = []
    with PassingOver():
        for _ in range(3):
            results += [x.data_ptr() != 0, parameter.data_ptr() != 0, x.tolist(), x.is_pinned(),
                        x.numpy().tolist()]
    return results, written
