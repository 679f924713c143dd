"""Custom operators that do what their schemas say, as users write them."""

import torch
from torch import Tensor


@torch.library.custom_op("honest::squash", mutates_args=())
def squash(x: Tensor, slope: float) -> Tensor:
    return x / (1 + slope * x.abs())


@squash.register_fake
def _(x, slope):
    return torch.empty_like(x)


def _keep_input(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.slope = inputs[1]


def _squash_backward(ctx, gradient):
    x, = ctx.saved_tensors
    return gradient / (1 + ctx.slope * x.abs()) ** 2, None


squash.register_autograd(_squash_backward, setup_context=_keep_input)


@torch.library.custom_op("honest::scaled_norm", mutates_args=())
def scaled_norm(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the normalized rows, and what the backward needs."""
    scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
    return x * scale * weight, scale


@torch.library.custom_op("honest::scaled_norm_backward", mutates_args=())
def scaled_norm_backward(gradient: Tensor, x: Tensor, weight: Tensor,
                         scale: Tensor) -> tuple[Tensor, Tensor]:
    normalized = x * scale
    inner = gradient * weight
    along = (inner * normalized).mean(dim=-1, keepdim=True)
    return scale * (inner - normalized * along), (gradient * normalized).sum(dim=0)


def _keep_scale(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output[1])


scaled_norm.register_autograd(
    lambda ctx, gradient, _: scaled_norm_backward(gradient, *ctx.saved_tensors),
    setup_context=_keep_scale)
