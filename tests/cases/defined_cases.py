"""Operators that the job defines, in Python."""

import torch


def case_python_operator():
    """Custom operators in Python: with state of their own, writes, and a schema that lies."""
    calls = []
    with torch.library._scoped_library("tidepool_cases", "FRAGMENT") as library:
        library.define("count(Tensor x) -> Tensor")
        library.define("poke(Tensor(a!) x) -> ()")
        library.define("lies(Tensor x) -> Tensor")

        def count(x):
            calls.append(1)
            return x * len(calls)

        def poke(x):
            x.add_(1)

        def lies(x):
            x.mul_(2)
            return x + 1

        for function in (count, poke, lies):
            library.impl(function.__name__, function, "CPU")
        operators = torch.ops.tidepool_cases
        x = torch.randn(30) * 2
        before = x + 1
        a = operators.count(x)
        b = operators.count(a)
        operators.poke(x)
        after = x + 1
        c = operators.lies(x)
        d = x * 3
        return before, a, b, after, c, d, x, len(calls)


def case_composition_of_other_backends():
    """Tensors in mkldnn layout share their autograd key with those of backends like our own."""
    with torch.library._scoped_library("tidepool_composed", "FRAGMENT") as library:
        library.define("dense(Tensor x) -> Tensor")
        library.define("both(Tensor x) -> Tensor")
        for name in ("dense", "both"):
            library.impl(name, lambda x: (x.to_dense() if x.is_mkldnn else x) * 2,
                         "CompositeImplicitAutograd")
        library.impl("both", lambda x: x * 3, "CPU")
        x = torch.randn(4, 4) * 2
        operators = torch.ops.tidepool_composed
        return [operator(tensor) * 1 for operator in (operators.dense, operators.both)
                for tensor in (x, x.to_mkldnn())]


def case_composition_replaced():
    """What an operator runs is looked up at each call, as PyTorch does."""
    def dense(x):
        return x.to_dense() if x.is_mkldnn else x

    results = []
    x = torch.randn(4, 4) * 2
    for first, second in ((2, 5), (3, 7)):
        with torch.library._scoped_library("tidepool_replaced", "FRAGMENT") as library:
            library.define("scaled(Tensor x) -> Tensor")
            library.impl("scaled", lambda x, by=first: dense(x) * by, "CompositeImplicitAutograd")
            scaled = torch.ops.tidepool_replaced.scaled
            results += [scaled(x), scaled(x.to_mkldnn())]
            library.impl("scaled", lambda x, by=second: dense(x) * by, "CompositeImplicitAutograd",
                         allow_override=True)
            results += [scaled(x), scaled(x.to_mkldnn())]
            with torch.inference_mode():
                results.append(scaled(x) * 1)
    return results


def case_operator_defined_again():
    """Another operator under the name, and maybe at the address, of one that went away."""
    results = []
    for schema, function in (("twice(Tensor x) -> Tensor", lambda x: x * 2),
                             ("twice(Tensor x, Tensor y, float s) -> (Tensor, Tensor)",
                              lambda x, y, s: (x * s, y + s)),
                             ("twice(Tensor[] xs) -> Tensor[]", lambda xs: [x - 1 for x in xs])):
        with torch.library._scoped_library("tidepool_again", "FRAGMENT") as library:
            library.define(schema)
            library.impl("twice", function, "CPU")
            x, y = torch.randn(9) * 2, torch.randn(9) * 2
            arguments = (x,) if "y" not in schema else (x, y, 2.5)
            if "[]" in schema:
                arguments = ([x, y],)
            results.append(torch.ops.tidepool_again.twice(*arguments))
            results.append(x * 1)
    return results


def case_operator_of_all_devices_defined_again():
    """PyTorch's own object for an operator must go with it: it has the schema."""
    results = []
    for schema, function in (("changed(Tensor x) -> Tensor", lambda x: x * 2),
                             ("changed(Tensor(a!) x) -> Tensor(a!)", lambda x: x.mul_(3)),
                             ("changed(Tensor x) -> Tensor", lambda x: x - 1)):
        with torch.library._scoped_library("tidepool_again", "FRAGMENT") as library:
            library.define(schema)
            library.impl("changed", function, "CompositeExplicitAutograd")
            changed = torch.ops.tidepool_again.changed
            traced = torch.fx.experimental.proxy_tensor.make_fx(changed)(torch.randn(9))
            x = torch.randn(9) * 2
            results += [str(traced.graph), changed(x) * 1, x * 1, str(changed.default._schema)]
        results.append(torch._C._dispatch_has_kernel("tidepool_again::changed"))
    return results


def case_operator_that_is_given_no_tensor():
    @torch.library.custom_op("tidepool_custom::made", mutates_args=(), device_types="cpu")
    def made(device: torch.device) -> torch.Tensor:
        return torch.arange(6.)

    x = made("cpu") * 2
    return x, x + 1


def case_library_custom_op():
    @torch.library.custom_op("tidepool_custom::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    @torch.library.custom_op("tidepool_custom::bump_", mutates_args={"x"})
    def bump_(x: torch.Tensor) -> None:
        x.add_(1)

    scaled.register_autograd(lambda ctx, gradient: (gradient * 3, None))
    x = torch.randn(20, requires_grad=True)
    y = scaled(x * 2, 2.0)
    kept = (x * 2).detach()
    z = kept + 1
    bump_(kept)
    y.sin().sum().backward()
    return y, z, kept, kept + 0, x.grad
