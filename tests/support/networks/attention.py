"""Networks of attention: vision transformers, an encoder with a decoder, a mixture of experts.

As in `basic.py`, default sizes are for chaos: all kinds of layers, reduced widths.
"""

import torch
import torch.nn.functional as F
from torch import nn

from networks.basic import Gpt, GptBlock
from networks.vision import labelled_images


class FeedForward(nn.Sequential):
    """Two linear layers with GELU between."""

    def __init__(self, width, factor=2):
        super().__init__(nn.Linear(width, factor * width), nn.GELU(),
                         nn.Linear(factor * width, width))


class VisionTransformer(nn.Module):
    """ViT: patches, a class token, PyTorch's own encoder layers."""

    def __init__(self, width=16, heads=2, depth=2, patch=4, image=16, batch=2, classes=10,
                 factor=2):
        super().__init__()
        self.image, self.batch_size, self.classes = image, batch, classes
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, factor * width, dropout=0.1,
                                           activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, norm=nn.LayerNorm(width),
                                             enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def batch(self, step, generator):
        return labelled_images(generator, self.batch_size, self.image, self.classes)

    def forward(self, images, labels):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return F.cross_entropy(self.head(self.encoder(x)[:, 0]).float(), labels)


class WindowBlock(nn.Module):
    """Attention within windows, every other time shifted by half a window, with relative bias."""

    def __init__(self, width, heads, window, shift):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window),
                                            indexing="ij")).flatten(1)
        offset = places[:, :, None] - places[:, None] + window - 1
        self.register_buffer("offset", offset[0] * (2 * window - 1) + offset[1])
        self.mlp = FeedForward(width)

    def mask(self, side):
        """Return which places of each shifted window were neighbours before the shift."""
        if not self.shift:
            return None
        part = torch.zeros(side, dtype=torch.long)
        part[-self.window:-self.shift] = 1
        part[-self.shift:] = 2
        region = (3 * part[:, None] + part[None])[None, :, :, None]
        region = self.split(region).squeeze(-1)
        apart = region[:, :, None] != region[:, None]
        return torch.zeros(apart.shape).masked_fill_(apart, float("-inf"))[:, None]

    def split(self, x):
        batch, side, _, width = x.shape
        count = side // self.window
        x = x.view(batch, count, self.window, count, self.window, width).transpose(2, 3)
        return x.reshape(batch * count * count, self.window**2, width)

    def join(self, windows, batch, side):
        count = side // self.window
        x = windows.view(batch, count, count, self.window, self.window, -1).transpose(2, 3)
        return x.reshape(batch, side, side, -1)

    def attend(self, x):
        batch, side = x.shape[:2]
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2)) if self.shift else x
        windows = self.split(x)
        q, k, v = self.qkv(windows).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = scores + self.bias[self.offset].permute(2, 0, 1)
        mask = self.mask(side)
        if mask is not None:
            scores = scores + mask.repeat(batch, 1, 1, 1).to(scores.dtype)
        out = self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = self.join(out, batch, side)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ShiftedWindows(nn.Module):
    """A Swin transformer: windows, merged four to one between the stages."""

    def __init__(self, width=8, heads=2, window=2, depth=2, image=16, batch=2):
        super().__init__()
        self.image, self.batch_size = image, batch
        self.patches = nn.Conv2d(3, width, 2, stride=2)
        self.first = nn.ModuleList(WindowBlock(width, heads, window, k % 2 * window // 2)
                                   for k in range(depth))
        self.merge = nn.Linear(4 * width, 2 * width, bias=False)
        self.second = nn.ModuleList(WindowBlock(2 * width, heads, window, k % 2 * window // 2)
                                    for k in range(depth))
        self.norm, self.head = nn.LayerNorm(2 * width), nn.Linear(2 * width, 10)

    def batch(self, step, generator):
        return labelled_images(generator, self.batch_size, self.image)

    def forward(self, images, labels):
        x = self.patches(images).permute(0, 2, 3, 1)
        for block in self.first:
            x = block(x)
        x = self.merge(torch.cat([x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], -1))
        for block in self.second:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x).mean((1, 2))).float(), labels)


class EncoderDecoder(nn.Module):
    """PyTorch's transformer from text to text, with padding and label smoothing."""

    def __init__(self, vocabulary=40, width=16, heads=2, depth=1, length=8, batch=3):
        super().__init__()
        self.length, self.batch_size = length, batch
        self.words, self.places = nn.Embedding(vocabulary, width, 0), nn.Embedding(length, width)
        self.body = nn.Transformer(width, heads, depth, depth, 2 * width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def batch(self, step, generator):
        shape = (2, self.batch_size, self.length)
        text = torch.randint(1, self.words.num_embeddings, shape, generator=generator)
        lengths = torch.randint(2, self.length, (self.batch_size, 1), generator=generator)
        text[0].masked_fill_(torch.arange(self.length) >= lengths, 0)
        return [text[0], text[1]]

    def read(self, text):
        return self.words(text) + self.places(torch.arange(text.shape[1]))

    def forward(self, source, target):
        hidden = source == 0
        later = torch.ones(self.length - 1, self.length - 1, dtype=torch.bool).triu(1)
        out = self.body(self.read(source), self.read(target[:, :-1]), tgt_mask=later,
                        src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
        return F.cross_entropy(self.head(out).flatten(0, 1).float(), target[:, 1:].flatten(),
                               label_smoothing=0.1)


class Experts(nn.Module):
    """A layer in which each word goes to the two experts that a router chooses."""

    def __init__(self, width, count):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(FeedForward(width) for _ in range(count))

    def forward(self, x):
        flat = x.flatten(0, 1)
        chances = self.router(flat).float().softmax(-1)
        weights, chosen = chances.topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            word, rank = (chosen == number).nonzero(as_tuple=True)
            part = expert(flat[word]) * weights[word, rank, None].to(flat.dtype)
            out.index_add_(0, word, part.to(out.dtype))
        load = F.one_hot(chosen[:, 0], len(self.experts)).float().mean(0)
        return out.view_as(x), (load * chances.mean(0)).sum() * len(self.experts)


class MixtureOfExperts(nn.Module):
    """A decoder whose feed-forward parts are experts, with a loss that balances them."""

    def __init__(self, vocabulary=40, width=16, heads=2, experts=4, depth=2, length=10, batch=2):
        super().__init__()
        self.length, self.batch_size = length, batch
        self.words = nn.Embedding(vocabulary, width)
        self.attention = nn.ModuleList(nn.MultiheadAttention(width, heads, batch_first=True)
                                       for _ in range(depth))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * depth))
        self.experts = nn.ModuleList(Experts(width, experts) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary)

    def batch(self, step, generator):
        shape = (self.batch_size, self.length + 1)
        return [torch.randint(self.words.num_embeddings, shape, generator=generator)]

    def forward(self, text):
        x, balance = self.words(text[:, :-1]), 0.0
        later = torch.ones(self.length, self.length, dtype=torch.bool).triu(1)
        for k, (attention, experts) in enumerate(zip(self.attention, self.experts, strict=True)):
            y = self.norms[2 * k](x)
            x = x + attention(y, y, y, attn_mask=later, need_weights=False)[0]
            y, load = experts(self.norms[2 * k + 1](x))
            x, balance = x + y, balance + load
        return 0.01 * balance + F.cross_entropy(self.head(x).flatten(0, 1).float(),
                                                text[:, 1:].flatten())


class BertBlock(GptBlock):
    """GPT's block without a mask, and with the norms behind its parts."""

    causal = False

    def forward(self, x):
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.feed(x))


class Bert(Gpt):
    """BERT (Devlin et al., 2018) without its second task: 15 % of the words are to be guessed."""

    block = BertBlock

    def batch(self, step, generator):
        shape = (self.batch_size, self.length)
        text = torch.randint(self.tokens.num_embeddings, shape, generator=generator)
        masked = torch.rand(shape, generator=generator) < 0.15
        return [text.masked_fill(masked, 0), text.masked_fill(~masked, -100)]

    def forward(self, text, targets):
        return F.cross_entropy(self.predict(text), targets.flatten())


def heads_of(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Return (batch, length, width) as (batch, heads, length, width / heads)."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


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
    """The shape of Llama 3, frozen in bfloat16 but for adapters at queries and values."""

    def __init__(self, width=32, heads=4, groups=2, inner=64, depth=2, vocabulary=60, length=12,
                 rank=4, batch=2) -> None:
        super().__init__()
        self.length, self.batch_size = length, batch
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, groups, inner, rank)
                                    for _ in range(depth))
        self.norm = nn.RMSNorm(width)
        for name, parameter in self.named_parameters():
            if not name.endswith((".q.down", ".q.up", ".v.down", ".v.up")):
                parameter.requires_grad_(False)
                parameter.data = parameter.data.bfloat16()
        angles = torch.outer(torch.arange(length),
                             500000.0 ** (-torch.arange(0, width // heads, 2) * heads / width))
        angles = torch.cat([angles, angles], 1)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def batch(self, step, generator):
        shape = (self.batch_size, self.length + 1)
        return [torch.randint(self.tokens.num_embeddings, shape, generator=generator)]

    def forward(self, text):
        x = self.tokens(text[:, :-1])
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten())
