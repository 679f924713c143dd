"""Ways to save memory in training that PyTorch has itself, for the training benchmark."""

from __future__ import annotations

import contextlib
import functools

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

# What selective checkpointing keeps: what is slow to compute for its size.
KEPT = {"mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu"}
COMPILE_SHARE = 0.5  # activation_memory_budget: 1 keeps all, 0 computes all again


def selection(context, function, *args, **kwargs) -> CheckpointPolicy:
    keep = function._schema.name.removeprefix("aten::") in KEPT
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


def checkpoint_blocks(model: nn.Module, kind: type[nn.Module], **options) -> None:
    """Let every block of a network be computed again for its gradients."""
    for block in model.modules():
        if isinstance(block, kind):
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False,
                                              **options)


def compile_blocks(model: nn.Module, kind: type[nn.Module]) -> None:
    """Compile every block of a network by itself."""
    for block in model.modules():
        if isinstance(block, kind):
            block.compile(dynamic=False)


def compile_whole(model: nn.Module, share: float):
    """Return a network compiled as a whole, which keeps about this share of its activations."""
    import torch._functorch.config as config

    config.activation_memory_budget = share
    return torch.compile(model)


def apply(method: str, model: nn.Module, block: type[nn.Module]) -> nn.Module:
    """Return what to call in place of a model.

    Args:
        method: plain, checkpoint, selective, save_on_cpu or compile.
        model: the network.
        block: the class of the parts that checkpointing wraps.
    """
    if method == "checkpoint":
        checkpoint_blocks(model, block)
    elif method == "selective":
        checkpoint_blocks(model, block, context_fn=functools.partial(
            create_selective_checkpoint_contexts, selection))
    elif method == "compile":
        return compile_whole(model, COMPILE_SHARE)
    return model


def around_forward(method: str, device: str):
    """Return a context for each forward pass."""
    if method == "save_on_cpu":
        return torch.autograd.graph.save_on_cpu(pin_memory=device == "cuda")
    return contextlib.nullcontext()
