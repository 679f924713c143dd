"""The models of killer_job.py: each does what goes wrong under some mutants, and little else.

A model's forward pass returns the loss; `results` holds what else the step has computed. What
mutants do to them, and in which operator it shows, is in mutant_table.py.
"""

import ctypes
import os
import sys
import threading
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn

MODELS: dict[str, type[nn.Module]] = {}


def model(kind: type[nn.Module]) -> type[nn.Module]:
    """Enter a model in MODELS under its class's name in snake case."""
    name = "".join("_" + c.lower() if c.isupper() else c for c in kind.__name__).lstrip("_")
    MODELS[name] = kind
    return kind


def plugin():
    """Return Tidepool's plugin if it is attached to this process."""
    package = sys.modules.get("tidepool")
    if package is None:
        return None
    from tidepool.job import _job

    job = _job.current()
    return job.plugin if job else None


def evict_all() -> None:
    """Evict all that can be, if Tidepool is there."""
    attached = plugin()
    if attached:
        attached.evict_all()


def negate_unseen(x) -> None:
    """Write where nobody looks; allocates nothing, which would be noticed in another way."""
    key = torch._C.DispatchKeySet(torch._C._parse_dispatch_key("CustomRNGKeyId"))
    with torch._C._ExcludeDispatchKeyGuard(key):
        x.neg_()


class Model(nn.Module):
    """A linear layer; subclasses add what they are about."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.results: dict[str, torch.Tensor] = {}
        self.held: list = []

    def fresh(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return activations, and a tensor apart from the graph that can be evicted."""
        hidden = self.linear(inputs)
        return hidden, hidden.detach() * 2


@model
class Views(Model):
    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        shifted = plain[2:6].sin()
        product = plain.t() @ hidden
        return product.square().mean() + (shifted * shifted[0]).sum()


@model
class LockedView(Model):
    """Kernels that take a pointer and allocate afterwards."""

    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        flat = plain.round().view(-1)
        found, counts = torch.unique_consecutive(flat[8:], return_counts=True)
        self.results = {"found": found, "counts": counts}
        return hidden.square().mean() * found.square().mean()


@model
class InPlace(Model):
    def forward(self, inputs):
        hidden = self.linear(inputs) * 2
        hidden.mul_(3)
        part = self.linear(inputs) * 5
        part[:, :4].fill_(1)
        return hidden.square().mean() + part.square().mean()


@model
class Buffers(Model):
    def __init__(self, features):
        super().__init__(features)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, inputs):
        before = self.scale * 3
        self.scale.add_(1)
        self.results = {"before": before, "after": self.scale * 1}
        return self.linear(inputs).square().mean() * before.sum()


@model
class DeadRoot(Model):
    """What contents from outside were for is still there when they are not."""

    def __init__(self, features):
        super().__init__(features)
        self.scales = [float(k) for k in range(features)]

    def forward(self, inputs):
        scaled = torch.tensor(self.scales) * 3
        return (self.linear(inputs) * scaled).mean()


@model
class OldContents(Model):
    """Contents that an operator has read before they were updated."""

    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        sine = plain.sin()
        plain.mul_(3)
        return (hidden * torch.add(plain, sine)).mean()


@model
class ListWrite(Model):
    def forward(self, inputs):
        hidden, first = self.fresh(inputs)
        second = hidden.detach().exp().sqrt()
        sine = first.sin()
        torch._foreach_mul_([first, second], 3)
        return (hidden * torch.add(second, sine)).mean() + (hidden * first).mean()


@model
class BatchNorm(Model):
    def __init__(self, features):
        super().__init__(features)
        self.norm = nn.BatchNorm1d(features)

    def forward(self, inputs):
        return F.relu(self.norm(self.linear(inputs))).square().mean()


@model
class Dropout(Model):
    def forward(self, inputs):
        return F.dropout(self.linear(inputs), 0.5).square().mean()


@model
class SpareNormal(Model):
    """Few normal samples at a time: an odd number leaves one for the next draw."""

    def forward(self, inputs):
        first, second = torch.randn(5), torch.randn(5)
        self.results = {"first": first, "second": second}
        return self.linear(inputs).square().mean() * (first * second).sum()


@model
class Foreign(Model):
    """Memory of NumPy, through DLPack, and shared between processes."""

    def forward(self, inputs):
        hidden = self.linear(inputs)
        array, exchanged = numpy.ones(16, "float32"), numpy.ones(16, "float32")
        shared = torch.ones(16).share_memory_()
        self.held += [array, exchanged, shared]
        read = [torch.from_numpy(array) * 2, torch.from_dlpack(exchanged) * 3, shared * 4]
        array += 1
        exchanged += 2
        shared.add_(3)
        self.results = dict(zip(("numpy", "dlpack", "shared"), read, strict=True))
        return (hidden * (read[0] + read[1] + read[2])).mean()


@model
class Escaped(Model):
    """Memory that NumPy goes on writing after it was ours alone."""

    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        before = plain * 3
        array = plain.numpy()
        array[:] = 7
        after = plain * 5
        array[:] = 9
        self.held += [plain, array]
        self.results = {"before": before, "after": after}
        return (hidden * (before + after)).mean()


@model
class EscapedOverwritten(Model):
    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        array = plain.numpy()
        plain.copy_(hidden.detach())
        array[:] = 7
        self.results = {"plain": plain}
        return (hidden * plain).mean()


@model
class RawPointer(Model):
    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        before = plain * 3
        ctypes.memset(plain.untyped_storage().data_ptr(), 0, plain.nbytes // 2)
        self.held.append(plain)
        self.results = {"before": before, "plain": plain * 1}
        return (hidden * (plain + before)).mean()


@model
class UnseenWriter(Model):
    """An operator that runs where nobody looks, and writes."""

    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        before = plain * 3
        evict_all()
        plain + 1  # there again, alone
        negate_unseen(plain)
        evict_all()
        self.results = {"before": before, "plain": plain * 1}
        return (hidden * (plain + before)).mean()


_library = torch.library.Library("tidepool_killers", "FRAGMENT")
_library.define("counted(Tensor x) -> Tensor")
_library.define("lies(Tensor x) -> Tensor")
_calls = 0


def _counted(x):
    """Return something else each time."""
    global _calls
    _calls += 1
    return x + _calls


def _lies(x):
    """Write what the schema says it only reads."""
    negate_unseen(x)
    return x.sum()


_library.impl("counted", _counted, "CPU")
_library.impl("lies", _lies, "CPU")


@model
class PythonOperator(Model):
    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        return (hidden * torch.ops.tidepool_killers.counted(plain)).mean()


@model
class Compiled(Model):
    """Generated code, which no dispatcher shows, updates its input."""

    def __init__(self, features):
        super().__init__(features)
        self.triple = torch.compile(lambda x: x.mul_(3))

    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        before = plain.sin()
        self.triple(plain)
        return (hidden * (plain + before)).mean()


@model
class LyingOperator(Model):
    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        total = torch.ops.tidepool_killers.lies(plain)
        return (hidden * plain).mean() * total


@model
class AliasingOutput(Model):
    """The pieces of unsafe_chunk share memory, and its schema does not say so."""

    def forward(self, inputs):
        hidden = self.linear(inputs)
        first, second = torch.unsafe_chunk(hidden * 2, 2, dim=1)
        return (first * second.sin()).mean()


@model
class Collective(Model):
    def __init__(self, features):
        super().__init__(features)
        import torch.distributed as distributed

        self.all_reduce = distributed.all_reduce
        self.rank = int(os.environ["RANK"])
        self.store = distributed.FileStore(os.environ["RENDEZVOUS"], 2)
        distributed.init_process_group("gloo", store=self.store, world_size=2, rank=self.rank)

    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        self.all_reduce(plain)
        evict_all()
        return (hidden * plain).mean()


@model
class LateCollective(Collective):
    """One process reads what it has given before the other one comes."""

    steps = 0

    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        self.steps += 1
        if self.rank == 1:
            self.store.wait([f"read {self.steps}"])
        work = self.all_reduce(plain, async_op=True)
        early = hidden.detach() if self.rank == 1 else plain.sin()
        self.store.set(f"read {self.steps}", "")
        work.wait()
        evict_all()
        return (hidden * early * plain).mean()


@model
class Sparse(Model):
    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        sparse = plain.relu().to_sparse()
        before = torch.sparse.mm(sparse, plain.t())
        sparse.mul_(3)
        return (hidden * torch.sparse.mm(sparse, plain.t()).sum()).mean() * before.sum()


@model
class Nested(Model):
    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        nested = torch.nested.nested_tensor([plain[:3], plain[3:]])
        before = nested.to_padded_tensor(0.0)
        nested.mul_(3)
        return hidden.square().mean() * before.sum() + nested.to_padded_tensor(0.0).sum()


@model
class Mkldnn(Model):
    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        blocked = plain.to_mkldnn()
        before = blocked.to_dense()
        blocked.mul_(3)
        return (hidden * before).mean() + blocked.to_dense().sum()


@model
class LongOperator(Model):
    """Another thread evicts all it can while a long operator reads its operand."""

    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        large = plain.repeat(400, 50) * 1
        done = threading.Event()
        evictions = threading.Thread(target=self.evict_within, args=(4 * len(large) ** 2, done))
        evictions.start()
        product = large @ large.t()
        done.set()
        evictions.join()
        self.results = {"product": product}
        return hidden.square().mean() * product.mean()

    @staticmethod
    def evict_within(result_bytes, done):
        """Wait until the operator has memory for its result, and so its operand; then evict."""
        attached = plugin()
        while attached and not done.is_set():
            if attached.statistics()["cpu"]["allocated_bytes"] > result_bytes:
                time.sleep(0.1)
                attached.evict_all()
                return


@model
class Chain(Model):
    """Contents that take several replays to restore, each of one input."""

    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        sine = plain.sin()
        power = sine.exp()
        self.results = {"sine": sine, "power": power}
        return hidden.square().mean() * power[0, 0].item()


@model
class ThreadCount(Model):
    def forward(self, inputs):
        hidden = self.linear(inputs)
        many = torch.rand(16, 200_000)
        torch.set_num_threads(2)
        sums = [row.sum() for row in many]
        torch.set_num_threads(1)
        return hidden.square().mean() * torch.stack(sums).sin().sum()


@model
class Denormals(Model):
    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        tiny = plain * 1e-39
        torch.set_flush_denormal(True)
        kept = tiny.clone()  # copies bits, but has them computed again in this mode
        torch.set_flush_denormal(False)
        return hidden.square().mean() + (kept * 1e38).sum()


@model
class DefaultDtype(Model):
    def forward(self, inputs):
        torch.set_default_dtype(torch.float32)
        hidden, plain = self.fresh(inputs)
        whole = (plain * 100).long()
        third = whole / 3
        torch.set_default_dtype(torch.float64)
        return hidden.square().mean() * third.sum()


@model
class Autocast(Model):
    """An operator that autocast leaves alone, though not those that it calls."""

    def __init__(self, features):
        super().__init__(features)
        self.bilinear = nn.Bilinear(features, features, 4)

    def forward(self, inputs):
        hidden = self.linear(inputs)
        with torch.autocast("cpu", torch.bfloat16):
            both = self.bilinear(hidden, inputs)
        return both.float().square().mean()


@model
class Metadata(Model):
    def forward(self, inputs):
        hidden, plain = self.fresh(inputs)
        flat = plain.t().view(-1) if plain.t().is_contiguous() else plain.view(-1)
        shapes = [flat[3:], plain.expand(2, *plain.shape), torch.empty_like(plain),
                  plain.new_empty(3), plain.unsqueeze(0)]
        return hidden.square().mean() * sum(each.dim() for each in shapes)
