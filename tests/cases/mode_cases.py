"""Hooks, modes and transforms around operators."""

import copy
import io
from typing import List

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint


def small_model():
    return nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.GELU(), nn.Dropout(0.2),
                         nn.Linear(24, 6))


def gradients(model):
    return [p.grad for p in model.parameters()]


def case_custom_function():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, gradient):
            x, = ctx.saved_tensors
            return gradient * 3 * x * x

    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    x = torch.randn(20, requires_grad=True)
    y = Cube.apply(x * 2)
    z = InPlace.apply(y * 3)
    (z.sin().sum() + y.sum()).backward()
    return x.grad, y, z


def case_hooks():
    model = small_model()
    seen = []
    model[0].register_forward_pre_hook(lambda m, args: (args[0] * 1.5,))
    model[2].register_forward_hook(lambda m, args, out: out + 0.1)
    model[4].register_full_backward_hook(lambda m, gin, gout: seen.append(gout[0] * 1))
    x = torch.randn(16, 12, requires_grad=True)
    hidden = model(x)
    hidden.register_hook(lambda gradient: gradient * 2)
    hidden.retain_grad()
    accumulated = []
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: accumulated.append(p.grad.sum()))
    hidden.square().sum().backward()
    return hidden, hidden.grad, seen, gradients(model), accumulated, x.grad


def case_saved_tensor_hooks():
    model = small_model()
    x = torch.randn(16, 12)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.to(torch.float64),
                                                  lambda t: t.to(torch.float32)):
        y = model(x)
    y.sum().backward()
    first = copy.deepcopy(gradients(model))
    with torch.autograd.graph.save_on_cpu():
        y = model(x)
    y.square().sum().backward()
    stored = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: stored.append(t.numpy().copy())
                                                  or len(stored) - 1,
                                                  lambda k: torch.from_numpy(stored[k])):
        z = (x[:4].requires_grad_() * 2).sin().exp()
    z.sum().backward()
    return first, gradients(model), z


def case_double_backward():
    x = torch.randn(10, requires_grad=True)
    w = torch.randn(10, 10, requires_grad=True)
    y = (x @ w).tanh().square().sum()
    gx, gw = torch.autograd.grad(y, (x, w), create_graph=True)
    (gx.square().sum() + gw.sin().sum()).backward()
    hessian = torch.autograd.functional.hessian(lambda v: v.exp().prod(), torch.randn(4))
    conv = nn.Conv2d(2, 3, 3)
    out = conv(torch.randn(2, 2, 8, 8)).sin().sum()
    gc, = torch.autograd.grad(out, conv.weight, create_graph=True)
    gc.square().sum().backward()
    return x.grad, w.grad, hessian, conv.weight.grad


def case_func_transforms():
    from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    parameters = dict(model.named_parameters())
    x, y = torch.randn(6, 4), torch.randn(6, 1)

    def loss(p, a, b):
        return (functional_call(model, p, (a,)) - b).square().mean()

    per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    value, tangent = jvp(torch.sin, (x,), (x * 2,))
    _, pull = vjp(torch.exp, x)
    drawn = vmap(lambda v: v + torch.rand(4), randomness="different")(x)
    return (per_sample, value, tangent, pull(x * 3), jacrev(torch.sin)(x[0]),
            jacfwd(torch.cos)(x[0]), hessian(lambda v: v.prod())(x[0]), drawn)


def case_forward_mode():
    import torch.autograd.forward_ad as forward

    with forward.dual_level():
        x = forward.make_dual(torch.randn(10) * 2, torch.randn(10) * 2)
        y = (x * 3).sin() + x.square()
        primal, tangent = forward.unpack_dual(y)
        return primal * 1, tangent * 1


def case_inference_mode():
    model = small_model().eval()
    with torch.inference_mode():
        x = torch.randn(8, 12) * 2
        y = model(x)
        z = y + 1
        y.mul_(2)
        view = z[2:4]
        view.add_(1)
        nested = [F.softmax(y, 1), F.layer_norm(z, (6,)), view * 1, torch.einsum("ij,kj->ik", y, z)]
    return [each.clone() for each in (x, y, z, *nested)], y.is_inference()


def case_anomaly_mode():
    model = small_model()
    with torch.autograd.detect_anomaly(check_nan=True):
        model(torch.randn(16, 12)).sum().backward()
    return gradients(model)


class Counting(TorchDispatchMode):
    """Counts the operators that it sees."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def case_dispatch_mode():
    """A user's mode sees the operators of the job, and no replay of ours."""
    model = small_model()
    x = torch.randn(16, 12) * 2
    with Counting() as counting:
        y = model(x)
        y.square().sum().backward()
        z = y * 2
    return y, z, gradients(model), counting.names


def case_profiler():
    """A profiler counts the calls of the job, and no replay of ours."""
    model = small_model()
    x = torch.randn(16, 12) * 2
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        y = model(x)
        y.square().sum().backward()
    counts = {event.key: event.count for event in profile.key_averages()
              if event.key in ("aten::addmm", "aten::gelu", "aten::native_batch_norm", "aten::mm",
                               "aten::native_dropout", "aten::gelu_backward")}
    return y, gradients(model), dict(sorted(counts.items()))


def case_function_mode_and_subclass():
    from torch.overrides import TorchFunctionMode

    class Doubling(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            return result * 2 if function is torch.sin else result

    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.randn(10) * 2
    with Doubling():
        y = torch.sin(x)
    tagged = x.as_subclass(Tagged)
    z = (tagged * 3).relu()
    return x, y, z.as_subclass(torch.Tensor), type(z).__name__


def case_wrapper_subclass():
    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype,
                                                       requires_grad=inner.requires_grad)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            unwrap = lambda t: t.inner if isinstance(t, Wrapped) else t  # noqa: E731
            result = function(*[unwrap(a) for a in args], **(kwargs or {}))
            return Wrapped(result) if isinstance(result, torch.Tensor) else result

    x = Wrapped(torch.randn(12) * 2)
    y = (x * 2).sin() + x
    y.add_(1)
    return y.inner, x.inner, (y.inner * 1).sum()


def case_torchscript():
    """What TorchScript saves, copies, freezes, prints and lists, it reads below Python."""
    model = small_model().eval()
    for parameter in model.parameters():
        parameter.data = parameter.data * 2  # memory that can be evicted
    x = torch.randn(4, 12) * 2
    scripted, traced = torch.jit.script(model), torch.jit.trace(model, x)
    loaded = []
    for each in (scripted, traced):
        file = io.BytesIO()
        torch.jit.save(each, file)
        loaded.append(torch.jit.load(io.BytesIO(file.getvalue()))(x))
    frozen = torch.jit.freeze(scripted)
    length = len(str(frozen.graph))
    return loaded, copy.deepcopy(scripted)(x), frozen(x), length > 0, as_list(x * 3)


@torch.jit.script
def as_list(x: torch.Tensor) -> List[List[float]]:
    y = x * 2
    listed: List[List[float]] = y.tolist()
    return listed


@torch.jit.script
def drawn_by_a_generator_of_its_own(weights: torch.Tensor):
    generator = torch.Generator(device=torch.device("cpu"))
    generator.manual_seed(2023)
    return torch.multinomial(weights, 4, False, generator=generator)


def case_generator_that_only_a_script_holds():
    return [drawn_by_a_generator_of_its_own(torch.rand(1000)) for _ in range(20)]


def case_kernel_replaced():
    """Kernels of the job's own for PyTorch's operators, one with a state of its own."""
    x = torch.randn(100)
    calls = []

    def mine(a):
        calls.append(1)
        return a * len(calls)

    before = torch.special.erfcx(x * 1)
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("special_erfcx", mine, "CPU")
        during = [torch.special.erfcx(x * 1) for _ in range(3)]
        values = [each.sum() for each in during]
    after = torch.special.erfcx(x * 1)
    return before, during, values, after, len(calls)


def case_kernel_replaced_by_one_that_calls_it():
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    kernel = torch.library.get_kernel("aten::mul_.Tensor", "CPU")
    x, y = torch.randn(100), torch.randn(100) * 2
    z = y * 1
    before = z.sin()
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("mul_.Tensor", lambda a, b: kernel.call_boxed(keys, a, b), "CPU",
                     allow_override=True)
        for _ in range(3):
            z.mul_(x)
        during = z.sin()
    z.mul_(y)
    return before, during, z


def case_checkpoint():
    results = []
    for reentrant in (False, True):
        model = small_model()
        x = torch.randn(16, 12, requires_grad=True)
        y = checkpoint(model, x * 2, use_reentrant=reentrant)
        y = checkpoint(lambda v: F.dropout(v.sin(), 0.3), y, use_reentrant=reentrant)
        y.square().sum().backward()
        results += [y, x.grad, gradients(model), list(model.buffers())]
    return results


def case_accumulation_and_clipping():
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    norms = []
    for step in range(6):
        loss = model(torch.randn(16, 12)).square().mean() / 2
        loss.backward()
        if step % 2 == 1:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1))
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=step % 4 == 1)
    return norms, list(model.parameters()), list(model.buffers())


def case_moving_average():
    model = small_model()
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    own = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        loss = model(torch.randn(16, 12)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        with torch.no_grad():
            for name, p in model.named_parameters():
                own[name].lerp_(p, 0.1)
    return list(average.parameters()), own, list(model.parameters())


def case_scaler():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    scales = []
    for step in range(5):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.randn(16, 12)).float().square().mean()
        if step == 2:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
    return scales, list(model.parameters())


def case_saving_and_loading():
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step():
        loss = model(torch.randn(16, 12)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    first = step()
    file = io.BytesIO()
    activations = model(torch.randn(4, 12)) * 2
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "activations": activations, "rng": torch.get_rng_state()}, file)
    second = step()
    file.seek(0)
    loaded = torch.load(file)
    model.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    torch.set_rng_state(loaded["rng"])
    again = step()
    twin = copy.deepcopy(model)
    whole = io.BytesIO()
    torch.save(twin, whole)
    whole.seek(0)
    back = torch.load(whole, weights_only=False)
    return (first, second, again, loaded["activations"], list(back.parameters()),
            optimizer.state_dict()["state"])


def case_exceptions():
    """An operator that fails leaves its arguments as PyTorch leaves them."""
    x, y = torch.randn(4, 5) * 2, torch.randn(3) * 2
    seen = []
    for bad in (lambda: x @ y, lambda: x.add_(torch.randn(7)), lambda: torch.cat([x, y]),
                lambda: x.index_select(0, torch.tensor([99])), lambda: x.view(3, 3),
                lambda: torch.linalg.cholesky(-torch.eye(3)),
                lambda: F.embedding(torch.tensor([100]), x)):
        try:
            bad()
        except (RuntimeError, IndexError) as error:
            seen.append(type(error).__name__)
    z = x * 2
    try:
        with torch.no_grad():
            x.mul_(3)
            raise KeyError("the job's own")
    except KeyError:
        pass
    return x, y, z, seen, x + 1
