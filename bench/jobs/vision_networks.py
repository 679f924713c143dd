"""Networks on images for the training benchmark, in their published sizes.

Each has `items` (what is counted per second), `blocks()` (what checkpointing wraps), and
`batch(size, generator)`, one batch of random data on the host. `small` is for rehearsals.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from resnet50 import Bottleneck, resnet
from torch import nn


def images_with_labels(size: int, side: int, classes: int, generator) -> list[torch.Tensor]:
    return [torch.rand(size, 3, side, side, generator=generator) - 0.5,
            torch.randint(classes, (size,), generator=generator)]


class ResNet(nn.Module):
    """ResNet (He et al., 2015) on 224x224: (3, 4, 6, 3) blocks make 50 layers, (3, 8, 36, 3) 152.
    """

    items = "images"

    def __init__(self, counts=(3, 4, 6, 3), side=224) -> None:
        super().__init__()
        self.side = side
        self.layers = resnet(counts)

    def blocks(self) -> list[nn.Module]:
        return [layer for layer in self.layers if isinstance(layer, Bottleneck)]

    def batch(self, size: int, generator) -> list[torch.Tensor]:
        return images_with_labels(size, self.side, 1000, generator)

    def forward(self, images, labels):
        return F.cross_entropy(self.layers(images).float(), labels)


class Pair(nn.Sequential):
    """Two convolutions with batch norm."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after),
                         nn.ReLU(inplace=True),
                         nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after),
                         nn.ReLU(inplace=True))


class UNet(nn.Module):
    """U-Net (Ronneberger et al., 2015) of 64 to 1024 channels, padded, on 512x512, 2 classes."""

    items = "images"

    def __init__(self, width=64, depth=4, side=512) -> None:
        super().__init__()
        self.side = side
        sizes = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(Pair(before, after)
                                  for before, after in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(after, before, 2, stride=2)
                                for before, after in zip(sizes, sizes[1:], strict=False))
        self.join = nn.ModuleList(Pair(2 * size, size) for size in sizes[:-1])
        self.head = nn.Conv2d(width, 2, 1)

    def blocks(self) -> list[nn.Module]:
        return [*self.down, *self.join]

    def batch(self, size: int, generator) -> list[torch.Tensor]:
        images = torch.rand(size, 3, self.side, self.side, generator=generator) - 0.5
        return [images, torch.randint(2, images[:, 0].shape, generator=generator)]

    def forward(self, images, labels):
        x, kept = images, []
        for level, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for level in reversed(range(len(self.up))):
            x = self.join[level](torch.cat([kept[level], self.up[level](x)], 1))
        return F.cross_entropy(self.head(x).float(), labels)


class VisionTransformer(nn.Module):
    """ViT-L/16 (Dosovitskiy et al., 2020): 24 layers of 1024, 16 heads, on 224x224."""

    items = "images"

    def __init__(self, width=1024, heads=16, depth=24, patch=16, side=224) -> None:
        super().__init__()
        self.side = side
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, activation="gelu",
                                       batch_first=True, norm_first=True) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def blocks(self) -> list[nn.Module]:
        return list(self.layers)

    def batch(self, size: int, generator) -> list[torch.Tensor]:
        return images_with_labels(size, self.side, 1000, generator)

    def forward(self, images, labels):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x[:, 0])).float(), labels)
