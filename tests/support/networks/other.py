"""A state-space scan, a graph network, meta-learning, and generative training with several parts.

As in `basic.py`, default sizes are for chaos. A network with `parts` has an optimizer for each
part, stepped one after another with `forward(..., part=k)`; `after_step` runs at a step's end.
"""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from networks.basic import Residual


class StateSpaceBlock(nn.Module):
    """A selective scan over time, step by step, beside a gate and a causal convolution."""

    def __init__(self, width, state):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand, self.out = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.mix = nn.Conv1d(width, width, 3, padding=2, groups=width)
        self.select = nn.Linear(width, 2 * state + 1)
        self.decay = nn.Parameter(torch.log(torch.arange(1.0, state + 1)).repeat(width, 1))
        self.skip = nn.Parameter(torch.ones(width))

    def scan(self, x):
        step, into, out = self.select(x).float().split(
            [1, *[self.decay.shape[1]] * 2], dim=-1)
        step, rate = F.softplus(step), self.decay.exp()
        state, found = torch.zeros(len(x), *rate.shape), []
        for time in range(x.shape[1]):
            now = step[:, time, :, None]
            added = (now[..., 0] * x[:, time].float())[..., None] * into[:, time, None]
            state = torch.exp(-now * rate) * state + added
            found.append((state * out[:, time, None]).sum(-1))
        return torch.stack(found, 1) + self.skip * x

    def forward(self, x):
        inner, gate = self.expand(self.norm(x)).chunk(2, -1)
        inner = F.silu(self.mix(inner.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        return x + self.out(self.scan(inner).to(gate.dtype) * F.silu(gate))


class StateSpace(nn.Module):
    """A language model of state-space blocks."""

    def __init__(self, vocabulary=30, width=8, state=4, depth=2, length=8, batch=2):
        super().__init__()
        self.length, self.batch_size = length, batch
        self.words = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(StateSpaceBlock(width, state) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary)

    def batch(self, step, generator):
        shape = (self.batch_size, self.length + 1)
        return [torch.randint(self.words.num_embeddings, shape, generator=generator)]

    def forward(self, text):
        x = self.words(text[:, :-1])
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1).float(), text[:, 1:].flatten())


class GraphNetwork(nn.Module):
    """Messages along random edges: sums and maxima scattered, weighted by attention."""

    def __init__(self, features=8, width=8, depth=2, nodes=12, edges=30):
        super().__init__()
        self.features, self.nodes, self.edges = features, nodes, edges
        self.first = nn.Linear(features, width)
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.scores = nn.ModuleList(nn.Linear(2 * width, 1) for _ in range(depth))
        self.updates = nn.ModuleList(nn.GRUCell(2 * width, width) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def batch(self, step, generator):
        return [torch.randn(self.nodes, self.features, generator=generator),
                torch.randint(self.nodes, (2, self.edges), generator=generator),
                torch.randint(4, (self.nodes,), generator=generator)]

    def forward(self, features, edges, labels):
        x, (source, target) = self.first(features).relu().float(), edges
        for message, score, update in zip(self.messages, self.scores, self.updates, strict=True):
            pair = torch.cat([x[source], x[target]], 1)
            weight = F.leaky_relu(score(pair).float().squeeze(1), 0.2)
            highest = torch.full((len(x),), -1e9).scatter_reduce(0, target, weight.detach(), "amax")
            weight = (weight - highest[target]).exp()
            total = torch.zeros(len(x)).index_add(0, target, weight)
            sent = message(pair).relu().float()
            shared = torch.zeros_like(x).index_add_(
                0, target, sent * (weight / total[target])[:, None])
            most = torch.zeros_like(x).scatter_reduce(
                0, target[:, None].expand_as(sent), sent, "amax", include_self=True)
            x = update(torch.cat([shared, most], 1), x).float()
        return F.cross_entropy(self.head(x).float(), labels)


class Maml(nn.Module):
    """Meta-learning: gradients through steps of gradient descent on each of several tasks."""

    def __init__(self, width=8, depth=2, points=6, tasks=2, steps=2):
        super().__init__()
        self.points, self.tasks, self.steps = points, tasks, steps
        sizes = [1, *[width] * depth, 1]
        self.weights = nn.ParameterList(torch.randn(after, before) / before**0.5
                                        for before, after in zip(sizes, sizes[1:], strict=False))
        self.biases = nn.ParameterList(torch.zeros(after) for after in sizes[1:])

    def batch(self, step, generator):
        x = torch.rand(self.tasks, 2 * self.points, 1, generator=generator) * 6 - 3
        phase = torch.rand(self.tasks, 1, 1, generator=generator) * 3
        return [x, torch.sin(x + phase)]

    @staticmethod
    def apply(parameters, x):
        half = len(parameters) // 2
        for index in range(half):
            x = F.linear(x, parameters[index], parameters[half + index])
            x = torch.tanh(x) if index < half - 1 else x
        return x.float()

    def forward(self, x, y):
        losses = []
        for inputs, targets in zip(x, y, strict=True):
            adapted = [*self.weights, *self.biases]
            for _ in range(self.steps):
                error = F.mse_loss(self.apply(adapted, inputs[:self.points]),
                                   targets[:self.points])
                found = torch.autograd.grad(error, adapted, create_graph=True)
                adapted = [p - 0.05 * g for p, g in zip(adapted, found, strict=True)]
            losses.append(F.mse_loss(self.apply(adapted, inputs[self.points:]),
                                     targets[self.points:]))
        return torch.stack(losses).mean()


class Gan(nn.Module):
    """A generator against a discriminator with spectral norm, each with its own optimizer."""

    def __init__(self, width=4, depth=1, latent=6, image=8, batch=3):
        super().__init__()
        self.image, self.batch_size, self.latent = image, batch, latent
        side = image // 4
        self.generator = nn.Sequential(
            nn.Linear(latent, 2 * width * side * side), nn.Unflatten(1, (2 * width, side, side)),
            nn.BatchNorm2d(2 * width), nn.ReLU(inplace=True),
            *[Residual(2 * width) for _ in range(depth)],
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True), *[Residual(width) for _ in range(depth)],
            nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1), nn.Tanh())
        norm = nn.utils.parametrizations.spectral_norm
        self.discriminator = nn.Sequential(
            norm(nn.Conv2d(1, width, 4, stride=2, padding=1)), nn.LeakyReLU(0.2, inplace=True),
            *[Residual(width) for _ in range(depth)],
            norm(nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)),
            nn.LeakyReLU(0.2, inplace=True), nn.Flatten(),
            nn.Linear(2 * width * side * side, 1))

    def parts(self):
        return [self.discriminator, self.generator]

    def batch(self, step, generator):
        return [torch.rand(self.batch_size, 1, self.image, self.image, generator=generator)]

    def forward(self, images, part):
        made = self.generator(torch.randn(len(images), self.latent))
        if part == 1:
            return F.softplus(-self.discriminator(made).float()).mean()
        real, fake = (self.discriminator(x).float() for x in (images, made.detach()))
        return F.softplus(-real).mean() + F.softplus(fake).mean()


class TimedBlock(nn.Module):
    """A residual block that a time embedding shifts, with self-attention over the image."""

    def __init__(self, channels):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(2, channels), nn.GroupNorm(2, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(8, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        x = x + self.conv2(F.dropout(F.silu(self.norm2(y)), 0.1, self.training))
        q, k, v = (part[:, None] for part in self.qkv(x).flatten(2).mT.contiguous().chunk(3, -1))
        out = F.scaled_dot_product_attention(q, k, v)  # one head
        return x + out.transpose(2, 3).reshape(x.shape)


class Diffusion(nn.Module):
    """A U-Net that removes noise, and the exponential moving average of its parameters."""

    def __init__(self, width=4, depth=1, image=8, batch=2):
        super().__init__()
        self.image, self.batch_size = image, batch
        net = nn.ModuleDict({
            "time": nn.Sequential(nn.Linear(8, 8), nn.SiLU()),
            "first": nn.Conv2d(1, width, 3, padding=1),
            "high": nn.ModuleList(TimedBlock(width) for _ in range(depth)),
            "down": nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            "low": nn.ModuleList(TimedBlock(2 * width) for _ in range(depth)),
            "up": nn.Conv2d(2 * width, width, 3, padding=1),
            "last": nn.Conv2d(width, 1, 3, padding=1)})
        self.net, self.average = net, copy.deepcopy(net).requires_grad_(False)
        self.register_buffer("kept", torch.cumprod(1 - torch.linspace(1e-3, 0.1, 50), 0))

    def parts(self):
        return [self.net]

    def batch(self, step, generator):
        return [torch.rand(self.batch_size, 1, self.image, self.image, generator=generator)]

    def forward(self, images, part=0):
        when = torch.randint(len(self.kept), (len(images),))
        kept, noise = self.kept[when][:, None, None, None], torch.randn_like(images)
        angle = when[:, None] / 2.0 ** torch.arange(4)
        time = self.net["time"](torch.cat([angle.sin(), angle.cos()], 1))
        x = self.net["first"](kept.sqrt() * images + (1 - kept).sqrt() * noise)
        for block in self.net["high"]:
            x = block(x, time)
        y = self.net["down"](x)
        for block in self.net["low"]:
            y = block(y, time)
        x = x + self.net["up"](F.interpolate(y, scale_factor=2, mode="nearest"))
        return F.mse_loss(self.net["last"](F.silu(x)).float(), noise)

    def after_step(self):
        with torch.no_grad():
            for mean, now in zip(self.average.parameters(), self.net.parameters(), strict=True):
                mean.lerp_(now, 0.1)
