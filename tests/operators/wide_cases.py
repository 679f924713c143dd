"""Calls that are large enough to vary from run to run on a GPU: many threads meet in one place.

They go through the table of bindings/torch/calls/varying_operators.h, and through what else adds in
an order of its own: reductions, normalizations, matrix products. On the CPU they are small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from comparison import Case, evictable, gradients
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

MANY = {"cuda": 1 << 20, "cpu": 1 << 10}  # elements of what is not an image


class Maker:
    """Makes operands on a device, by operators, so that they can be evicted."""

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.many = MANY[device]
        self.side = 64 if device == "cuda" else 8  # of images and volumes
        self.leaves: list[torch.Tensor] = []

    def values(self, *shape: int) -> torch.Tensor:
        """Return random numbers that gradients are taken by."""
        leaf = torch.randn(shape, device=self.device, dtype=self.dtype).requires_grad_()
        self.leaves.append(leaf)
        return leaf * 1

    def places(self, count: int, below: int) -> torch.Tensor:
        return evictable(torch.randint(below, (count,), device=self.device))

    def image(self, dimensions: int, channels: int = 8) -> torch.Tensor:
        side = {1: self.side ** 2, 2: self.side, 3: max(8, self.side // 4)}[dimensions]
        return self.values(4, channels, *[side] * dimensions)


def scattered() -> Iterator[tuple[str, Callable]]:
    """What is added or written where indices say."""
    def on_rows(name: str, *more: object) -> Callable:
        def run(m: Maker):
            target, source = m.values(16, 8), m.values(m.many // 8, 8)
            return getattr(target, name)(0, m.places(m.many // 8, 16), source, *more)
        return run

    def on_elements(name: str, *more: object, **options: object) -> Callable:
        def run(m: Maker):
            target, source = m.values(16), m.values(m.many)
            return getattr(target, name)(0, m.places(m.many, 16), source, *more, **options)
        return run

    yield "index_add", on_rows("index_add")
    yield "index_copy", on_rows("index_copy")
    yield "index_reduce", on_rows("index_reduce", "prod")
    yield "scatter_add", on_elements("scatter_add")
    yield "scatter", on_elements("scatter")
    yield "scatter_reduce", on_elements("scatter_reduce", "mean")
    yield "scatter_reduce amax", on_elements("scatter_reduce", "amax")
    yield "index_put", lambda m: m.values(16).index_put(
        (m.places(m.many, 16),), m.values(m.many), accumulate=True)
    yield "put", lambda m: m.values(16).put(m.places(m.many, 16), m.values(m.many), True)
    yield "index", lambda m: m.values(16, 8)[m.places(m.many // 8, 16)]
    yield "gather", lambda m: m.values(16).gather(0, m.places(m.many, 16))
    yield "take", lambda m: m.values(16).take(m.places(m.many, 16))
    yield "index_select", lambda m: m.values(16, 8).index_select(0, m.places(m.many // 8, 16))
    yield "repeat_interleave", lambda m: m.values(16).repeat_interleave(m.many // 16)
    yield "expand", lambda m: m.values(1, 16).expand(m.many // 16, 16).exp()
    yield "embedding", lambda m: F.embedding(m.places(m.many // 8, 16), m.values(16, 32))
    for mode in ("sum", "mean", "max"):
        yield f"embedding_bag {mode}", lambda m, mode=mode: F.embedding_bag(
            m.places(m.many // 8, 16).view(-1, 16), m.values(16, 32), mode=mode)
    yield "bincount", lambda m: torch.bincount(m.places(m.many, 16), m.values(m.many).detach())
    yield "histc", lambda m: m.values(m.many).detach().histc(16)
    yield "unique", lambda m: m.places(m.many, 100).unique(return_inverse=True, return_counts=True)


def ordered() -> Iterator[tuple[str, Callable]]:
    """Reductions, scans and orders."""
    for name in ("sum", "mean", "var", "norm", "logsumexp", "prod", "cumsum", "cumprod",
                 "logcumsumexp", "softmax", "log_softmax", "median", "mode", "sort", "argsort",
                 "cummax", "amax", "any"):
        yield name, lambda m, name=name: getattr(m.values(16, m.many // 16), name)(dim=1)
    yield "kthvalue", lambda m: m.values(16, m.many // 16).kthvalue(5, dim=1)
    yield "topk", lambda m: m.values(16, m.many // 16).topk(5, dim=1)
    yield "sum of all", lambda m: m.values(m.many).sum()
    yield "nonzero", lambda m: (m.values(m.many) > 0).nonzero()
    yield "multinomial", lambda m: m.values(16, 64).detach().abs().multinomial(32)
    yield "dropout", lambda m: F.dropout(m.values(m.many), 0.5)


def images() -> Iterator[tuple[str, Callable]]:
    """Convolutions, pooling, padding, resampling, normalization."""
    for d in (1, 2, 3):
        conv, transposed = getattr(F, f"conv{d}d"), getattr(F, f"conv_transpose{d}d")
        yield f"conv{d}d", lambda m, d=d, conv=conv: conv(
            m.image(d), m.values(16, 8, *[3] * d), m.values(16), padding=1)
        yield f"conv{d}d grouped", lambda m, d=d, conv=conv: conv(
            m.image(d), m.values(8, 1, *[3] * d), padding=1, groups=8)
        yield f"conv_transpose{d}d", lambda m, d=d, conv=transposed: conv(
            m.image(d), m.values(8, 16, *[3] * d), stride=2)
        for name in ("max_pool", "avg_pool"):
            yield f"{name}{d}d", lambda m, d=d, f=getattr(F, f"{name}{d}d"): f(
                m.image(d), 3, stride=1)
            yield f"adaptive_{name}{d}d", lambda m, d=d, f=getattr(F, f"adaptive_{name}{d}d"): f(
                m.image(d), 5)
        for mode in ("reflect", "replicate", "circular"):
            yield f"pad {mode} {d}d", lambda m, d=d, mode=mode: F.pad(m.image(d), [3] * 2 * d, mode)
        yield f"batch_norm {d}d", lambda m, d=d: F.batch_norm(
            m.image(d), None, None, m.values(8), m.values(8), training=True)
    for mode, d in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3),
                    ("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 2)):
        yield f"interpolate {mode} {d}d", lambda m, mode=mode, d=d: F.interpolate(
            m.image(d), scale_factor=2.3, mode=mode)
    for mode in ("bilinear", "bicubic"):
        yield f"interpolate {mode} antialiased", lambda m, mode=mode: F.interpolate(
            m.image(2), scale_factor=0.4, mode=mode, antialias=True)
    for d in (2, 3):
        yield f"grid_sample {d}d", lambda m, d=d: F.grid_sample(
            m.image(d), m.values(4, *[16] * d, d).tanh(), align_corners=False)
        yield f"fractional_max_pool{d}d", lambda m, d=d, f=getattr(
            F, f"fractional_max_pool{d}d"): f(m.image(d), 3, output_ratio=(0.5,) * d)
    yield "max_unpool2d", lambda m: F.max_unpool2d(*F.max_pool2d(m.image(2), 2,
                                                                 return_indices=True), 2)
    yield "layer_norm", lambda m: F.layer_norm(m.values(m.many // 64, 64), (64,), m.values(64),
                                               m.values(64))
    yield "group_norm", lambda m: F.group_norm(m.image(2), 2, m.values(8), m.values(8))
    yield "rms_norm", lambda m: F.rms_norm(m.values(m.many // 64, 64), (64,), m.values(64))


def networks() -> Iterator[tuple[str, Callable]]:
    """Losses, attention, recurrent layers, matrix products."""
    yield "cross_entropy", lambda m: F.cross_entropy(m.values(m.many // 16, 16),
                                                     m.places(m.many // 16, 16))
    yield "nll_loss2d", lambda m: F.nll_loss(
        m.values(4, 16, m.side, m.side),
        m.places(4 * m.side ** 2, 16).view(4, m.side, m.side))
    yield "ctc_loss", lambda m: F.ctc_loss(
        m.values(50, 8, 20).log_softmax(2), 1 + m.places(8 * 30, 19).view(8, 30),
        torch.full((8,), 50), torch.full((8,), 30))
    for name in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
        yield f"attention {name.lower()}", lambda m, name=name: attention(
            m, getattr(SDPBackend, name))
    for kind in ("LSTM", "GRU", "RNN"):
        yield kind.lower(), lambda m, kind=kind: recurrent(m, kind)
    yield "mm", lambda m: m.values(32, m.many // 64) @ m.values(m.many // 64, 32)
    yield "bmm", lambda m: m.values(8, 64, 128) @ m.values(8, 128, 64)
    yield "addmm", lambda m: F.linear(m.values(m.many // 64, 64), m.values(48, 64), m.values(48))
    yield "baddbmm", lambda m: torch.baddbmm(m.values(8, 16, 16), m.values(8, 16, m.side),
                                             m.values(8, m.side, 16))
    yield "einsum", lambda m: torch.einsum("bij,bkj->bik", m.values(4, 32, m.side),
                                           m.values(4, 48, m.side))
    yield "sparse mm", lambda m: torch.sparse.mm(
        m.values(64, 64).detach().relu().to_sparse(), m.values(64, m.side))


def attention(m: Maker, backend: SDPBackend) -> torch.Tensor:
    length = 512 if m.device == "cuda" else 16
    q, k, v = (m.values(2, 4, length, 64) for _ in range(3))
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def recurrent(m: Maker, kind: str) -> object:
    layer = getattr(nn, kind)(16, 16, 2, bidirectional=True, device=m.device, dtype=m.dtype)
    m.leaves += layer.parameters()
    return layer(m.values(20, m.side, 16))


def groups(full: bool, dtypes: list[str] | None,
           device: str = "cpu") -> Iterator[tuple[str, Callable]]:
    """Yield each call as a group of one case, by type."""
    for kind in (scattered, ordered, images, networks):
        for name, call in kind():
            for dtype in dtypes or (("float32", "bfloat16") if full else ("float32",)):
                yield (f"{name} {dtype}".replace(" ", "_", name.count(" ")),
                       lambda call=call, dtype=dtype: iter([Case("", lambda: forward_and_backward(
                           call, Maker(device, getattr(torch, dtype))))]))


def forward_and_backward(call: Callable, maker: Maker) -> object:
    """Run a call; return its results and gradients."""
    result = call(maker)
    return result, gradients(result, maker.leaves)
