"""What torch.compile makes, under modes, in inference mode and beside code that runs eagerly."""

import contextlib
import gc
import signal
import time

import torch
from foreign_cases import HAS_SLOT, extension
from torch import nn
from torch.overrides import TorchFunctionMode


def case_compiled():
    def function(x, w):
        return torch.nn.functional.gelu(x @ w).sum(1) * 2

    compiled = torch.compile(function, backend="aot_eager")
    w = torch.randn(8, 8, requires_grad=True)
    results = []
    for _ in range(2):
        x = torch.randn(4, 8) * 2
        y = compiled(x, w)
        z = y + 1
        z.sum().backward()
        results += [x, y, z]
    return results, w.grad


def case_compiled_for_any_size():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w: (x @ w).relu().sum(0) * x.shape[0], backend="aot_eager",
                             dynamic=True)
    w = torch.randn(4, 4, requires_grad=True)
    for rows in (3, 5):
        compiled(torch.randn(rows, 4) * 2, w).sum().backward()
    return w.grad


def case_compiled_library_calls():
    """A compiled graph of library calls: the next one takes the pointer of what one has made."""
    def function(x, w):
        return torch.mm(torch.sort(torch.mm(x, w))[0], w)

    compiled = torch.compile(function)
    x, w = torch.randn(6, 6) * 2, torch.randn(6, 6) * 2
    with torch.no_grad():
        return [compiled(x * k, w) for k in range(3)]


def normed_block():
    return nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU())


def case_compiled_under_a_function_mode():
    """The mode changes what is cloned, and a graph that writes statistics is given clones."""
    class Rounding(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            return result.half().float() if function is torch.Tensor.clone else result

    block = normed_block()
    block.compile()
    with Rounding():
        results = [block(torch.randn(8, 16)) for _ in range(3)]
    return results, block[1].running_mean, block[1].running_var


def case_compiled_for_a_default_device():
    block = nn.Sequential(*normed_block(), nn.Dropout(0.3))
    block.compile()
    with torch.device("meta"):
        results = [block(torch.randn(8, 16, device="cpu")) for _ in range(3)]
    return results, block[1].running_mean, block[1].running_var


def case_compiled_graph_writes_a_tensor_of_inference_mode():
    @torch.compile
    def attend(cache, at, key):
        cache.index_copy_(1, at, key)
        return (key @ cache.transpose(1, 2)).softmax(-1)

    with torch.inference_mode():
        cache = torch.zeros(2, 16, 8)
        results = [attend(cache, torch.tensor([k]), torch.randn(2, 1, 8)) for k in range(3)]
    results.append(attend(cache, torch.tensor([3]), torch.randn(2, 1, 8)))
    return results, cache


def case_compiled_function_goes_on_eagerly():
    """Where it reads what a graph has made, torch.compile is about to trace what runs."""
    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
    read = []

    @torch.compile
    def train(x):
        first = x + layers[0](x).tanh()
        torch._dynamo.graph_break()
        second = first + layers[1](first).tanh()
        torch._dynamo.graph_break()
        read.append(str(first.detach().numpy()))
        loss = layers[2](second).square().mean()
        loss.backward()
        return loss.detach()

    losses = [train(torch.randn(4, 8)) for _ in range(2)]
    return losses, read, [p.grad for p in layers.parameters()]


def case_compiled_function_and_what_it_passes_over():
    """What runs between two graphs is looked at as without Tidepool, and nothing besides."""
    from torch._dynamo.utils import counters

    @torch.library.custom_op("tidepool_custom::positive", mutates_args=())
    def positive(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]

    positive.register_autograd(lambda ctx, gradient: gradient)

    @positive.register_fake
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    @torch.compile(backend="aot_eager")
    def f(x):
        return positive(x * 2) + 1

    counters.clear()
    y = f(torch.randn(10) * 2)
    return y * 2, sorted(reason.splitlines()[0] for reason in counters["graph_break"])


def case_compiled_backward_pass_with_wrapped_numbers():
    """Inductor's code for the whole pass is given the factors that operators have saved."""
    from torch._dynamo import compiled_autograd

    results = []
    for factor in (2, 0.5):
        x = torch.randn(4, requires_grad=True)
        y = (x * factor).sum()
        with compiled_autograd._enable(torch.compile(backend="inductor", fullgraph=True)):
            y.backward()
        results += [x.grad * 1, y]
    return results


def case_traced_compositions_that_are_written_in_python():
    """Tracing with sizes that are symbols takes them, and none of their kernels in C++."""
    @torch.compile(backend="eager", dynamic=True)
    def sized(x):
        return torch.empty((x.shape[0], x.shape[1]), out=torch.empty(x.shape)).shape

    x = torch.randn(5, 3) * 2
    return list(sized(x)), x * 2


class Finalized:
    """Is freed by the collector alone, and calls a function then."""

    def __init__(self, end):
        self.itself, self.end = self, end

    def __del__(self):
        self.end()


def case_compiled_graphs_and_what_python_runs_within():
    """Handlers of signals and finalizers work on tensors wherever Python happens to be."""
    def block(x):
        for _ in range(3):
            x = (x @ x).sin()
        return x

    compiled = torch.compile(block)
    x = torch.randn(400, 400)
    count, ended = torch.zeros(3) * 1, torch.zeros(300) * 1
    seen, endings, wrong = [], [], []

    def handle(*_):
        with torch.no_grad():
            count.add_(1)
        seen.append(float(count[0] * 2))

    def end():
        ended.add_(1)  # what fails in a finalizer, Python ignores
        endings.append(True)

    before, threshold = signal.signal(signal.SIGALRM, handle), gc.get_threshold()
    gc.set_threshold(50)
    try:
        for k in range(20):
            Finalized(end)
            doubled = ended * 2
            value = doubled[0].item()
            signal.setitimer(signal.ITIMER_REAL, 0.0005 * (k % 7 + 1))
            result, waited = compiled(x), 0
            while len(seen) <= k and waited < 5000:
                time.sleep(0.001)
                waited += 1
            wrong.append(doubled[0].item() != value)
        gc.collect()
    finally:
        gc.set_threshold(*threshold)
        given = signal.signal(signal.SIGALRM, before)
    return (result, count, ended, seen, len(endings), any(wrong), given is handle,
            signal.getsignal(signal.SIGALRM) is before)


def case_compiled_parts_are_the_same():
    """What the compiler has seen without tensors, it does not look at again."""
    torch._dynamo.reset()  # or it depends on what earlier cases compiled, and found in caches
    counters = torch._dynamo.utils.counters
    counters.clear()

    @contextlib.contextmanager
    def doubled(x):
        yield x.sin() * 2

    @torch._dynamo.disable(recursive=False)
    def beside(x):
        torch._C._set_deterministic_algorithms(True)
        torch._C._set_deterministic_algorithms(False)
        with doubled(x) as y:
            return y.cos()

    @torch.compile(backend="eager")
    def run(x):
        return beside(x + 1) + 1

    results = [run(torch.randn(8)) for _ in range(2)]
    return results, dict(counters["frames"]), dict(counters["stats"])


def case_compiled_with_constants():
    """A frozen graph reads the parameters as they were, which no operand shows."""
    with torch._inductor.config.patch(freezing=True), torch.no_grad():
        model = nn.Sequential(nn.GELU(), nn.LayerNorm(16)).eval()
        compiled = torch.compile(model)
        results = [compiled(torch.randn(8, 16) * k) for k in range(1, 4)]
        for parameter in model.parameters():
            parameter.mul_(0.5)
    return results


def case_compiled_result_is_written_before_its_backward():
    """A result that is saved, too, is the same tensor: writing it is an error."""
    compiled = torch.compile(lambda x: x.exp())
    y = compiled(torch.randn(8, 16, requires_grad=True) * 2)
    with torch.no_grad():
        y.mul_(2)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return str(error).partition(":")[0]
    return "no error"


def case_compiled_backward_and_a_raw_writer_of_what_it_read():
    """The compiled kernels take the pointer of the weight as the raw writer does after them."""
    if not HAS_SLOT:
        return torch.randn(3) * 2 + 1
    _, functions = extension()
    weight = torch.randn(8, requires_grad=True)
    result = torch.compile(lambda x, w: (x * w).sin())(torch.randn(4, 8) * 2, weight)
    result.sum().backward()
    refused = functions.extension_fill(weight.untyped_storage()._cdata, 3.0)
    return result * 2, weight.grad, weight.detach() * 2, refused


class Skipping(nn.Module):
    """Writes statistics and draws, before or after it reads indices that may be wrong."""

    def __init__(self, draws_last):
        super().__init__()
        self.draws_last = draws_last
        self.norm, self.rows = nn.BatchNorm1d(8), nn.Embedding(10, 8)

    def forward(self, x, indices):
        if self.draws_last:
            return nn.functional.dropout(self.rows(indices) * 2, 0.5, self.training) @ x.t()
        drawn = nn.functional.dropout(self.norm(x).relu(), 0.5, self.training)
        return drawn * 2 + self.rows(indices)


def case_compiled_lists_of_any_sizes():
    """While PyTorch traces, the sizes of what is in a list are symbols."""
    def clip(tensors):
        norms = torch._foreach_norm(tensors, 2.0)
        torch._foreach_mul_(tensors, 0.5)
        return torch.stack(norms).norm(), *torch._foreach_add(tensors, 1.0)

    compiled = torch.compile(clip, dynamic=True, backend="aot_eager")
    return [compiled([torch.randn(size) * 2, torch.randn(size + 3, 4) * 2]) for size in (5, 9)]


def case_compiled_graph_raises_and_the_job_goes_on():
    found = []
    for draws_last in (False, True):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Skipping(draws_last)
        compiled = torch.compile(model, dynamic=False)
        for step in range(4):
            indices = torch.randint(0, 10, (16,))
            if step == 2:
                indices[3] = 50
            try:
                result = compiled(torch.randn(16, 8), indices)
                result.sum().backward()
                found.append(result)
            except (IndexError, RuntimeError):
                found.append("skipped")
            found += [model.norm.running_mean.clone(), model.norm.num_batches_tracked.clone(),
                      torch.rand(2)]
        found += [model.rows.weight.grad]
    return found
