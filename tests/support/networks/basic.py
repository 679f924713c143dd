"""The first networks that tests and benchmarks train: ordinary PyTorch.

Default sizes are for chaos: all kinds of layers, reduced widths. The package has larger ones.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    """Linear, layer norm, GELU and dropout, repeated."""

    def __init__(self, features=32, width=32, depth=4, batch=16):
        super().__init__()
        self.features, self.batch_size = features, batch
        layers = []
        for index in range(depth):
            layers += [nn.Linear(width if index else features, width), nn.LayerNorm(width),
                       nn.GELU(), nn.Dropout(0.1)]
        self.layers = nn.Sequential(*layers, nn.Linear(width, 10))

    def batch(self, step: int, generator: torch.Generator) -> list[torch.Tensor]:
        return [torch.randn(self.batch_size, self.features, generator=generator),
                torch.randint(10, (self.batch_size,), generator=generator)]

    def forward(self, inputs, labels):
        return F.cross_entropy(self.layers(inputs).float(), labels)


class BasicBlock(nn.Module):
    """ResNet's block of two convolutions, with in-place activations."""

    def __init__(self, before, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False),
                                          nn.BatchNorm2d(channels))

    def forward(self, x):
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


class ResNet18(nn.Module):
    """ResNet-18 with the stem for small images; `width` is the channels of its first stage."""

    def __init__(self, width=4, image=16, batch=4):
        super().__init__()
        self.image, self.batch_size = image, batch
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False),
                                  nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(3, stride=1, padding=1))
        blocks, before = [], width
        for stage in range(4):
            channels = width << stage
            for index in range(2):
                stride = 2 if stage and not index else 1
                blocks.append(BasicBlock(before, channels, stride))
                before = channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, 10)

    def batch(self, step: int, generator: torch.Generator) -> list[torch.Tensor]:
        shape = (self.batch_size, 3, self.image, self.image)
        return [torch.randn(shape, generator=generator),
                torch.randint(10, (self.batch_size,), generator=generator)]

    def forward(self, images, labels):
        features = self.blocks(self.stem(images))
        pooled = F.adaptive_avg_pool2d(features, 1).flatten(1)
        return F.cross_entropy(self.head(pooled).float(), labels)


class GptBlock(nn.Module):
    """Causal self-attention and a feed-forward part, both behind a layer norm."""

    causal = True

    def __init__(self, width, heads, attention_dropout):
        super().__init__()
        self.heads, self.attention_dropout = heads, attention_dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        dropout = self.attention_dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout,
                                             is_causal=self.causal)
        return self.dropout(self.out(out.transpose(1, 2).reshape(batch, length, width)))

    def feed(self, x):
        return self.dropout(self.down(F.gelu(self.up(x), approximate="tanh")))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Gpt(nn.Module):
    """A decoder whose output layer is its embedding.

    Layers take the given chances to drop attention weights in turns: on the CPU those that drop and
    those that do not take different kernels.
    """

    block = GptBlock

    def __init__(self, vocabulary=64, width=32, heads=4, depth=4, length=16, batch=2,
                 attention_dropout=(0.0, 0.1)):
        super().__init__()
        self.length, self.batch_size = length, batch
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.dropout = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(
            self.block(width, heads, attention_dropout[index % len(attention_dropout)])
            for index in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def batch(self, step: int, generator: torch.Generator) -> list[torch.Tensor]:
        shape = (self.batch_size, self.length + 1)
        return [torch.randint(self.tokens.num_embeddings, shape, generator=generator)]

    def predict(self, text):
        x = self.tokens(text)
        x = self.dropout(x + self.positions(torch.arange(text.shape[1], device=text.device)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1).float()

    def forward(self, text):
        inputs, targets = text[:, :-1], text[:, 1:]
        return F.cross_entropy(self.predict(inputs), targets.flatten())


class BiLstm(nn.Module):
    """Layers of a bidirectional LSTM, unrolled from cells."""

    def __init__(self, features=8, width=16, layers=2, length=6, batch=4):
        super().__init__()
        self.features, self.length, self.batch_size = features, length, batch
        sizes = [features] + [2 * width] * (layers - 1)
        self.forward_cells = nn.ModuleList(nn.LSTMCell(size, width) for size in sizes)
        self.backward_cells = nn.ModuleList(nn.LSTMCell(size, width) for size in sizes)
        self.head = nn.Linear(2 * width, 5)

    def batch(self, step: int, generator: torch.Generator) -> list[torch.Tensor]:
        return [torch.randn(self.length, self.batch_size, self.features, generator=generator),
                torch.randint(5, (self.length, self.batch_size), generator=generator)]

    @staticmethod
    def unroll(cell, inputs):
        state, outputs = None, []
        for x in inputs:
            state = cell(x, state)
            outputs.append(state[0])
        return outputs

    def forward(self, inputs, labels):
        sequence = list(inputs)
        for ahead, back in zip(self.forward_cells, self.backward_cells, strict=True):
            left = self.unroll(ahead, sequence)
            right = self.unroll(back, sequence[::-1])[::-1]
            sequence = [torch.cat(pair, 1) for pair in zip(left, right, strict=True)]
        losses = [F.cross_entropy(self.head(x).float(), label)
                  for x, label in zip(sequence, labels, strict=True)]
        return torch.stack(losses).mean()


class Lstm(nn.Module):
    """Whole layers of a bidirectional LSTM, cuDNN's on a GPU, over words, and a tag for each."""

    def __init__(self, vocabulary=50, width=16, depth=2, length=6, batch=4, tags=5):
        super().__init__()
        self.length, self.batch_size, self.tags = length, batch, tags
        self.words = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            nn.LSTM(2 * width if index else width, width, bidirectional=True, batch_first=True)
            for index in range(depth))
        self.dropout, self.head = nn.Dropout(0.2), nn.Linear(2 * width, tags)

    def batch(self, step: int, generator: torch.Generator) -> list[torch.Tensor]:
        shape = (self.batch_size, self.length)
        return [torch.randint(self.words.num_embeddings, shape, generator=generator),
                torch.randint(self.tags, shape, generator=generator)]

    def forward(self, text, tags):
        x = self.words(text)
        for layer in self.layers:
            x = self.dropout(layer(x)[0])
        return F.cross_entropy(self.head(x).flatten(0, 1).float(), tags.flatten())


class TreeLstm(nn.Module):
    """A binary Tree-LSTM over a random tree, another one in every step."""

    def __init__(self, vocabulary=50, width=16, leaves=8, batch=4):
        super().__init__()
        self.leaves, self.batch_size = leaves, batch
        self.embedding = nn.Embedding(vocabulary, width)
        self.leaf = nn.Linear(width, 3 * width)
        self.join = nn.Linear(2 * width, 5 * width)
        self.head = nn.Linear(width, 5)
        self.shape = random.Random(0)

    def batch(self, step: int, generator: torch.Generator) -> list[torch.Tensor]:
        self.shape = random.Random(step)
        count = self.shape.randint(self.leaves * 3 // 4, self.leaves)
        words = torch.randint(self.embedding.num_embeddings, (count, self.batch_size),
                              generator=generator)
        return [words, torch.randint(5, (self.batch_size,), generator=generator)]

    def read(self, word):
        i, o, u = self.leaf(self.embedding(word)).chunk(3, 1)
        cell = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def combine(self, left, right):
        i, f, g, o, u = self.join(torch.cat([left[0], right[0]], 1)).chunk(5, 1)
        cell = torch.sigmoid(i) * torch.tanh(u)
        cell = cell + torch.sigmoid(f) * left[1] + torch.sigmoid(g) * right[1]
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def forward(self, words, labels):
        nodes, losses = [self.read(word) for word in words], []
        while len(nodes) > 1:
            at = self.shape.randrange(len(nodes) - 1)
            nodes[at:at + 2] = [self.combine(nodes[at], nodes[at + 1])]
            losses.append(F.cross_entropy(self.head(nodes[at][0]).float(), labels))
        return sum(losses) / len(losses)


class Residual(nn.Module):
    """Group norm, SiLU and a convolution beside a shortcut."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(2, channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.conv(F.silu(self.norm(x)))


class Vae(nn.Module):
    """A convolutional variational autoencoder with reparametrised sampling."""

    def __init__(self, channels=4, depth=2, latent=8, image=16, batch=4):
        super().__init__()
        self.image, self.batch_size = image, batch
        self.inner = (channels, image // 4, image // 4)
        flat = channels * (image // 4) ** 2
        self.encoder = nn.Sequential(nn.Conv2d(1, channels, 4, stride=2, padding=1),
                                     *[Residual(channels) for _ in range(depth)],
                                     nn.Conv2d(channels, channels, 4, stride=2, padding=1),
                                     nn.ELU(), nn.Flatten(), nn.Linear(flat, 2 * latent))
        self.expand = nn.Linear(latent, flat)
        self.decoder = nn.Sequential(
            nn.ELU(), nn.ConvTranspose2d(channels, channels, 4, stride=2, padding=1),
            *[Residual(channels) for _ in range(depth)],
            nn.ConvTranspose2d(channels, 1, 4, stride=2, padding=1))

    def batch(self, step: int, generator: torch.Generator) -> list[torch.Tensor]:
        return [torch.rand(self.batch_size, 1, self.image, self.image, generator=generator)]

    def forward(self, images):
        mean, log_variance = self.encoder(images).float().chunk(2, 1)
        latent = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        logits = self.decoder(self.expand(latent).unflatten(1, self.inner)).float()
        error = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
        return (error + divergence) / images.shape[0]
