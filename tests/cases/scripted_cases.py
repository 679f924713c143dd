"""TorchScript's own readers of tensors that no graph of the called function shows."""

import io
import pickle
import warnings

import torch
from torch import Tensor, nn
from torch.jit.mobile import _load_for_lite_interpreter


@torch.jit.interface
class Listing(nn.Module):
    def forward(self, x: Tensor) -> list[float]:
        pass


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("factor", torch.linspace(0, 1, 300).exp())

    def forward(self, x: Tensor) -> list[float]:
        values: list[float] = (x * self.factor).tolist()
        return values


class UsesLists(nn.Module):
    inner: Listing

    def __init__(self):
        super().__init__()
        self.inner = Lists()

    def forward(self, x: Tensor) -> list[float]:
        return self.inner.forward(x + 1)


def case_a_method_of_an_interface_reads_what_it_computes():
    module = torch.jit.script(UsesLists())
    return [module(torch.randn(300) * k) for k in (1.0, 2.0, 3.0)]


def listed(x: Tensor) -> list[float]:
    values: list[float] = x.mul(2).tolist()
    return values


@torch.jit.script
def awaiting(x: Tensor) -> list[float]:
    later = torch.jit._awaitable(listed, x + 1)
    return torch.jit._awaitable_wait(later)


def case_what_is_waited_for_reads_what_it_computes():
    return [awaiting(torch.randn(300)) for _ in range(3)]


class Keeps(nn.Module):
    read: list[float]
    values: Tensor

    def __init__(self):
        super().__init__()
        self.values, self.read = torch.linspace(0, 1, 300).exp(), [0.0]
        self.training = False

    def forward(self, x: Tensor):
        return x + self.values

    @torch.jit.export
    def __getstate__(self):
        return self.values, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[Tensor, bool]):
        self.values, self.training = state[0] * 2, state[1]
        values: list[float] = (state[0] * 3).tolist()
        self.read = values


def case_what_is_loaded_reads_what_it_computes():
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Keeps()), file)
    loaded = torch.jit.load(io.BytesIO(file.getvalue()))
    return loaded(torch.randn(300)), loaded.read


def case_the_lite_interpreter_reads_what_it_computes():
    saved = torch.jit.script(Lists())._save_to_buffer_for_lite_interpreter()
    module = _load_for_lite_interpreter(io.BytesIO(saved))
    return [module(torch.randn(300)) for _ in range(3)]


@torch.jit.script
def fused(x: Tensor, y: Tensor):
    return (x * y).tanh().sigmoid() * x + y


@torch.jit.script
def fused_with_listed(all: list[Tensor], y: Tensor):
    return (all[0] * y).tanh().sigmoid() * all[0] + y


@torch.jit.script
def fused_and_written(x: Tensor, y: Tensor):
    result = (y * y + y).relu() * y.tanh() + x
    x.mul_(2)
    return result


@torch.jit.script
class Boxed:
    def __init__(self, held: Tensor):
        self.held = held


@torch.jit.script
def fused_and_boxed(x: Tensor, y: Tensor) -> Boxed:
    return Boxed((x * y).tanh().sigmoid() * x + y)


class WithBoxed(torch.nn.Module):
    boxed: Boxed

    def __init__(self):
        super().__init__()
        self.boxed = Boxed(torch.randn(8, 300) * 2)

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.boxed.held).tanh().sigmoid() * x + self.boxed.held


def case_backward_graphs_are_fused():
    """By the fuser that wheels have on the CPU; on CUDA one is on by default."""
    compiled = torch._C
    before = (compiled._jit_set_profiling_executor(False), compiled._jit_can_fuse_on_cpu_legacy(),
              compiled._jit_can_fuse_on_cpu(), compiled._jit_texpr_fuser_enabled())
    compiled._jit_override_can_fuse_on_cpu_legacy(True)
    compiled._jit_override_can_fuse_on_cpu(True)
    compiled._jit_set_texpr_fuser_enabled(False)
    try:
        found = []
        with_boxed = torch.jit.script(WithBoxed())
        for k in range(1, 4):
            x, y = (torch.randn(8, 300, requires_grad=True) for _ in range(2))
            result = fused(x * k, y.sin())
            (result * 2).sin().sum().backward(retain_graph=True)
            result.exp().sum().backward()
            results = [fused_with_listed(torch.jit.script([fused(x * k, y)]), y),
                       fused_and_written(fused(x * k, y) * 1, y),
                       fused_and_boxed(fused(x * k, y), y).held, with_boxed(x * k)]
            sum(each.tanh().sum() for each in results).backward()
            found += [result, x.grad, y.grad, *results]
        return found
    finally:
        compiled._jit_set_profiling_executor(before[0])
        compiled._jit_override_can_fuse_on_cpu_legacy(before[1])
        compiled._jit_override_can_fuse_on_cpu(before[2])
        compiled._jit_set_texpr_fuser_enabled(before[3])


def case_containers_are_printed():
    x = torch.randn(300).double() * 2
    return repr(torch.jit.script([x, x * 2])), str(torch.jit.script({"a": x, "b": x * 2}))


def case_quantized_weights_are_kept_by_what_loads_them():
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    small = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    scripted, file = io.BytesIO(), io.BytesIO()
    torch.jit.save(torch.jit.script(small), scripted)
    torch.save(small, file)
    loaded = (pickle.loads(pickle.dumps(small)),
              torch.load(io.BytesIO(file.getvalue()), weights_only=False),
              torch.jit.load(io.BytesIO(scripted.getvalue())))
    x = torch.randn(32, 64)
    return [each(x * k) for each in loaded for k in (1, 2)]
