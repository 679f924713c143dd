"""Networks on sequences for the training benchmark, in their published sizes.

As in vision_networks.py. Attention is PyTorch's scaled_dot_product_attention.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def heads_of(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Return (batch, length, width) as (batch, heads, length, width / heads)."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


class Block(nn.Module):
    """Self-attention and a feed-forward part behind layer norms, as GPT-2 and BERT have them.

    GPT-2's norms come before each part, BERT's after it.
    """

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def attend(self, x):
        q, k, v = (heads_of(part, self.heads) for part in self.qkv(x).chunk(3, 2))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal,
                                             dropout_p=0.1 if self.training else 0.0)
        return self.dropout(self.out(out.transpose(1, 2).flatten(2)))

    def feed(self, x):
        return self.dropout(self.down(F.gelu(self.up(x), approximate="tanh")))

    def forward(self, x):
        if self.causal:
            x = x + self.attend(self.norm1(x))
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.feed(x))


class Transformer(nn.Module):
    """GPT-2 (Radford et al., 2019) where `causal`, else BERT (Devlin et al., 2018) without its
    second task: 15 % of the tokens are masked and guessed. Medium and large: 24 layers of 1024 with
    16 heads; GPT-2 large: 36 of 1280 with 20."""

    items = "tokens"

    def __init__(self, width=1024, heads=16, depth=24, vocabulary=50257, length=1024,
                 causal=True) -> None:
        super().__init__()
        self.length, self.causal, self.vocabulary = length, causal, vocabulary
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList(Block(width, heads, causal) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def blocks(self) -> list[nn.Module]:
        return list(self.layers)

    def batch(self, size: int, generator) -> list[torch.Tensor]:
        text = torch.randint(self.vocabulary, (size, self.length + 1), generator=generator)
        if self.causal:
            return [text[:, :-1].contiguous(), text[:, 1:].contiguous()]
        text = text[:, 1:].contiguous()
        masked = torch.rand(text.shape, generator=generator) < 0.15
        return [text.masked_fill(masked, 0), text.masked_fill(~masked, -100)]

    def forward(self, text, targets):
        places = torch.arange(text.shape[1], device=text.device)
        x = self.dropout(self.tokens(text) + self.positions(places))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Adapted(nn.Module):
    """A frozen linear layer and a low-rank change of it (LoRA, Hu et al., 2021)."""

    def __init__(self, before: int, after: int, rank: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(after, before) * before**-0.5, requires_grad=False)
        self.down = nn.Parameter(torch.randn(rank, before) * before**-0.5)
        self.up = nn.Parameter(torch.zeros(after, rank))

    def forward(self, x):
        return F.linear(x, self.weight) + F.linear(F.linear(F.dropout(x, 0.05, self.training),
                                                            self.down), self.up)


class LlamaBlock(nn.Module):
    """Grouped attention with rotary places, and a gated feed-forward part, without biases."""

    def __init__(self, width: int, heads: int, groups: int, inner: int, rank: int) -> None:
        super().__init__()
        self.heads, self.groups = heads, groups
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.v = Adapted(width, width, rank), Adapted(width, width * groups // heads, rank)
        self.k = nn.Linear(width, width * groups // heads, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    @staticmethod
    def turn(x, cosine, sine):
        left, right = x.chunk(2, 3)
        return x * cosine + torch.cat([-right, left], 3) * sine

    def forward(self, x, cosine, sine):
        y = self.norm1(x)
        q = self.turn(heads_of(self.q(y), self.heads), cosine, sine)
        k = self.turn(heads_of(self.k(y), self.groups), cosine, sine)
        k, v = (each.repeat_interleave(self.heads // self.groups, 1)
                for each in (k, heads_of(self.v(y), self.groups)))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(out.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """The shape of Llama 3.2 1B: 16 layers of 2048, 32 heads in 8 groups, 8192 inside, 128256
    words; frozen in bfloat16 but for adapters of rank 16 at queries and values."""

    items = "tokens"

    def __init__(self, width=2048, heads=32, groups=8, inner=8192, depth=16, vocabulary=128256,
                 length=1024, rank=16) -> None:
        super().__init__()
        self.length, self.vocabulary = length, vocabulary
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, groups, inner, rank)
                                    for _ in range(depth))
        self.norm = nn.RMSNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        for name, parameter in self.named_parameters():
            if not name.endswith((".q.down", ".q.up", ".v.down", ".v.up")):
                parameter.requires_grad_(False)
                parameter.data = parameter.data.bfloat16()
        angles = torch.outer(torch.arange(length),
                             500000.0 ** (-torch.arange(0, width // heads, 2) * heads / width))
        angles = torch.cat([angles, angles], 1)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def blocks(self) -> list[nn.Module]:
        return list(self.layers)

    def batch(self, size: int, generator) -> list[torch.Tensor]:
        text = torch.randint(self.vocabulary, (size, self.length + 1), generator=generator)
        return [text[:, :-1].contiguous(), text[:, 1:].contiguous()]

    def forward(self, text, targets):
        x = self.tokens(text)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class BiLstm(nn.Module):
    """Layers of a bidirectional LSTM (cuDNN's on a GPU) over an embedding, and a tag per token."""

    items = "tokens"

    def __init__(self, width=1024, depth=4, vocabulary=30000, length=256, tags=50) -> None:
        super().__init__()
        self.length, self.vocabulary, self.tags = length, vocabulary, tags
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            nn.LSTM(2 * width if index else width, width, bidirectional=True, batch_first=True)
            for index in range(depth))
        self.dropout, self.head = nn.Dropout(0.2), nn.Linear(2 * width, tags)

    def blocks(self) -> list[nn.Module]:
        return list(self.layers)

    def batch(self, size: int, generator) -> list[torch.Tensor]:
        shape = (size, self.length)
        return [torch.randint(self.vocabulary, shape, generator=generator),
                torch.randint(self.tags, shape, generator=generator)]

    def forward(self, text, tags):
        x = self.tokens(text)
        for layer in self.layers:
            x = self.dropout(layer(x)[0])
        return F.cross_entropy(self.head(x).flatten(0, 1).float(), tags.flatten())
