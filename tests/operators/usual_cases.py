"""What ordinary training and generation call, and the databases have no samples of."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from comparison import Case, gradients
from torch import nn

aten = torch.ops.aten


def values(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Return random numbers that gradients are taken by."""
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def clipped_gradients(dtype: torch.dtype) -> object:
    weights = [nn.Parameter(torch.randn(6, 4, dtype=dtype)) for _ in range(3)]
    for each in weights:
        each.grad = torch.randn_like(each)
    norm = nn.utils.clip_grad_norm_(weights, 0.5, foreach=True)
    nn.utils.clip_grad_value_(weights, 0.1, foreach=True)
    return norm, [each.grad for each in weights]


def lists_with_tensors(dtype: torch.dtype) -> object:
    def lists() -> list[torch.Tensor]:
        return [torch.rand(3, 4, dtype=dtype) + 0.5 for _ in range(3)]
    one, three = torch.tensor(1.5, dtype=dtype), torch.rand(3, dtype=dtype) + 0.5
    found = []
    for name in ("add", "mul", "div"):
        found.append(getattr(torch, f"_foreach_{name}")(lists(), one))
        getattr(torch, f"_foreach_{name}_")(lists(), one)
    for name in ("addcmul", "addcdiv"):
        found.append(getattr(torch, f"_foreach_{name}")(lists(), lists(), lists(), three))
        getattr(torch, f"_foreach_{name}_")(lists(), lists(), lists(), three)
    return found


def scaled_gradients(dtype: torch.dtype) -> object:
    scale, grown = torch.tensor([1024.0]), torch.zeros(1, dtype=torch.int32)
    found = torch.zeros(1)
    gradients_of = [torch.randn(4, 4) for _ in range(2)]
    aten._amp_foreach_non_finite_check_and_unscale_(gradients_of, found, 1 / scale)
    aten._amp_update_scale_(scale, grown, found, 2.0, 0.5, 2)
    return scale, grown, gradients_of


def weight_norm(dtype: torch.dtype) -> object:
    v, g = values(6, 4, 3, dtype=dtype), values(6, 1, 1, dtype=dtype)
    made = torch._weight_norm(v, g, 0)
    return made, gradients(made, [v, g])


def folded(dtype: torch.dtype) -> object:
    x = values(2, 12, 9, dtype=dtype)
    made = F.fold(x, (4, 4), (2, 2))
    image = values(2, 3, 6, 6, dtype=dtype)
    parts = F.unfold(image, (3, 3), padding=1)
    return made, parts, gradients((made, parts), [x, image])


def warped(dtype: torch.dtype) -> object:
    theta, image = values(2, 2, 3, dtype=dtype), values(2, 3, 6, 6, dtype=dtype)
    made = F.grid_sample(image, F.affine_grid(theta, [2, 3, 5, 5], align_corners=False),
                         align_corners=False)
    return made, gradients(made, [theta, image])


def convolutions(dtype: torch.dtype) -> object:
    x, weight, bias = (values(*shape, dtype=dtype) for shape in ((7, 2, 3), (3, 3, 4), (4,)))
    made = torch.conv_tbc(x, weight, bias, 1)
    volume, kernel = values(1, 2, 5, 5, 5, dtype=dtype), values(3, 2, 3, 3, 3, dtype=dtype)
    image, square = values(1, 2, 5, 5, dtype=dtype), values(3, 2, 3, 3, dtype=dtype)
    slow = [aten.slow_conv_dilated3d(volume, kernel, [3, 3, 3], None, [1] * 3, [1] * 3, [1] * 3),
            aten.slow_conv_transpose3d(volume, kernel.transpose(0, 1), [3, 3, 3]),
            aten.slow_conv_dilated2d(image, square, [3, 3], None, [1] * 2, [1] * 2, [1] * 2),
            aten.slow_conv_transpose2d(image, square.transpose(0, 1), [3, 3])]
    return made, slow, gradients((made, slow), [x, weight, bias])


def normalized(dtype: torch.dtype) -> object:
    mean, variance = torch.zeros(3), torch.ones(3)
    return torch.batch_norm_update_stats(torch.randn(4, 3, 5), mean, variance, 0.1), mean, variance


def drawn(dtype: torch.dtype) -> object:
    own = torch.Generator().manual_seed(3)
    return [torch.randperm(9), torch.randperm(9, generator=own), torch.rand(4, generator=own),
            torch.randint(2, 7, (5,), generator=own), torch.randint(7, (5,)),
            torch.empty(4, dtype=torch.int64).random_(), torch.rand(5).multinomial(3, True),
            F.dropout(values(4, 4, dtype=dtype), 0.3), torch.poisson(torch.rand(4)),
            F.rrelu(values(4, 4, dtype=dtype), training=True),
            F.gumbel_softmax(values(4, 4, dtype=dtype))]


def scattered(dtype: torch.dtype) -> object:
    x, places = torch.rand(4, 5, dtype=dtype), torch.randint(4, (3, 5))
    source = torch.rand(3, 5, dtype=dtype)
    return [x.scatter(0, places, source, reduce=how) for how in ("add", "multiply")] + [
        x.scatter(0, places, 1.5, reduce=how) for how in ("add", "multiply")] + [
        x.clone().scatter_(0, places, source, reduce="add")]


def predicates(dtype: torch.dtype) -> object:
    flags = torch.rand(5) > 0.5
    return [aten._is_all_true(flags), aten._is_any_true(flags),
            aten._conj_copy(torch.randn(3, dtype=torch.complex64)),
            aten.view_as_real_copy(torch.randn(3, dtype=torch.complex64)),
            aten.view_as_complex_copy(torch.randn(3, 2))]


def groups(full: bool, dtypes: list[str] | None) -> Iterator[tuple[str, Callable]]:
    """Yield each function above as a group of one case, by type."""
    for function in (clipped_gradients, lists_with_tensors, scaled_gradients, weight_norm, folded,
                     warped, convolutions, normalized, drawn, scattered, predicates):
        for dtype in dtypes or ("float32",):
            yield (f"{function.__name__} {dtype}",
                   lambda function=function, dtype=dtype: iter(
                       [Case("", lambda: function(getattr(torch, dtype)))]))
