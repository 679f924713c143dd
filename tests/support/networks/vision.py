"""Networks on images: residual, dense, mobile and U-shaped ones, and a detector.

As in `basic.py`, default sizes are for chaos: all kinds of layers, reduced widths.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn


def labelled_images(generator, batch, image, classes=10) -> list[torch.Tensor]:
    """Return random images with labels."""
    return [torch.randn(batch, 3, image, image, generator=generator),
            torch.randint(classes, (batch,), generator=generator)]


def conv_norm(before, channels, kernel, stride=1, groups=1, act=None) -> nn.Sequential:
    """Return a convolution without bias, batch norm, and an activation if there is one."""
    layers = [nn.Conv2d(before, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(channels)]
    return nn.Sequential(*layers, *([act] if act else []))


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions."""

    def __init__(self, before, width, stride, in_place):
        super().__init__()
        after, self.in_place = 4 * width, in_place
        self.body = nn.Sequential(conv_norm(before, width, 1, act=nn.ReLU(inplace=True)),
                                  conv_norm(width, width, 3, stride, act=nn.ReLU(inplace=True)),
                                  conv_norm(width, after, 1))
        same = stride == 1 and before == after
        self.shortcut = nn.Identity() if same else conv_norm(before, after, 1, stride)

    def forward(self, x):
        out, shortcut = self.body(x), self.shortcut(x)
        return F.relu(out.add_(shortcut) if self.in_place else out + shortcut, inplace=True)


class ResNet(nn.Module):
    """ResNet-50, or with other counts of blocks; `width` is the inner channels of its first stage.

    Its last images are not 1x1: oneDNN's bfloat16 weight gradients of these read memory that nobody
    has written, and differ from run to run.
    """

    def __init__(self, width=2, image=32, batch=2, blocks=(3, 4, 6, 3), classes=10, stem=(3, 1),
                 in_place=True):
        super().__init__()
        self.image, self.batch_size, self.classes = image, batch, classes
        layers = [conv_norm(3, width, *stem, act=nn.ReLU(inplace=True)),
                  nn.MaxPool2d(3, stride=2, padding=1)]
        before = width
        for stage, count in enumerate(blocks):
            for index in range(count):
                inner = width << stage
                stride = 2 if stage and not index else 1
                layers.append(Bottleneck(before, inner, stride, in_place))
                before = 4 * inner
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(before, classes)

    def batch(self, step, generator):
        return labelled_images(generator, self.batch_size, self.image, self.classes)

    def forward(self, images, labels):
        return F.cross_entropy(self.head(self.features(images)).float(), labels)


class DenseLayer(nn.Module):
    """DenseNet's layer: it reads all features before it, and adds some."""

    def __init__(self, before, growth):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(before), nn.ReLU(inplace=True),
                                  nn.Conv2d(before, 2 * growth, 1, bias=False),
                                  nn.BatchNorm2d(2 * growth), nn.ReLU(inplace=True),
                                  nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False))

    def forward(self, features):
        return self.body(torch.cat(features, 1))


class DenseNet(nn.Module):
    """DenseNet: dense blocks with halving transitions between them."""

    def __init__(self, growth=2, layers=(3, 3, 3), image=16, batch=2):
        super().__init__()
        self.image, self.batch_size = image, batch
        channels = 2 * growth
        self.stem = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.blocks, self.transitions = nn.ModuleList(), nn.ModuleList()
        for number, count in enumerate(layers):
            self.blocks.append(nn.ModuleList(DenseLayer(channels + k * growth, growth)
                                             for k in range(count)))
            channels += count * growth
            last = number == len(layers) - 1
            self.transitions.append(nn.BatchNorm2d(channels) if last else nn.Sequential(
                nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
                nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)))
            channels = channels if last else channels // 2
        self.head = nn.Linear(channels, 10)

    def batch(self, step, generator):
        return labelled_images(generator, self.batch_size, self.image)

    def forward(self, images, labels):
        x = self.stem(images)
        for block, transition in zip(self.blocks, self.transitions, strict=True):
            features = [x]
            for layer in block:
                features.append(layer(features))
            x = transition(torch.cat(features, 1))
        return F.cross_entropy(self.head(F.relu(x).mean((2, 3))).float(), labels)


class InvertedResidual(nn.Module):
    """MobileNet's block: wide, depthwise, with squeeze and excitation, and narrow again."""

    def __init__(self, before, after, stride):
        super().__init__()
        wide = 4 * before
        self.expand = conv_norm(before, wide, 1, act=nn.Hardswish(inplace=True))
        self.depthwise = conv_norm(wide, wide, 3, stride, wide, nn.Hardswish(inplace=True))
        self.squeeze, self.excite = nn.Conv2d(wide, before, 1), nn.Conv2d(before, wide, 1)
        self.narrow = conv_norm(wide, after, 1)
        self.keeps_shape = stride == 1 and before == after

    def forward(self, x):
        out = self.depthwise(self.expand(x))
        gate = self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(out, 1))))
        out = self.narrow(out * F.hardsigmoid(gate))
        return x + out if self.keeps_shape else out


class MobileNet(nn.Module):
    """MobileNet V3: inverted residuals."""

    def __init__(self, width=4, blocks=4, image=16, batch=2):
        super().__init__()
        self.image, self.batch_size = image, batch
        layers, before = [conv_norm(3, width, 3, act=nn.Hardswish(inplace=True))], width
        for index in range(blocks):
            after = before + width if index % 3 == 1 else before
            layers.append(InvertedResidual(before, after, 2 if index % 4 == 1 else 1))
            before = after
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(before, 10))

    def batch(self, step, generator):
        return labelled_images(generator, self.batch_size, self.image)

    def forward(self, images, labels):
        return F.cross_entropy(self.head(self.features(images).mean((2, 3))).float(), labels)


class DoubleConv(nn.Module):
    """Two convolutions with group norm, SiLU and dropout."""

    def __init__(self, before, channels, dropout=0.1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, channels, 3, padding=1), nn.GroupNorm(2, channels),
            nn.SiLU(inplace=True), nn.Dropout2d(dropout),
            nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(2, channels), nn.SiLU())

    def forward(self, x):
        return self.body(x)


class NormedPair(nn.Sequential):
    """Two convolutions with batch norm."""

    def __init__(self, before, channels):
        super().__init__(conv_norm(before, channels, 3, act=nn.ReLU(inplace=True)),
                         conv_norm(channels, channels, 3, act=nn.ReLU(inplace=True)))


class UNet(nn.Module):
    """A U-Net for segmentation: down by pooling, up by transposed convolutions."""

    def __init__(self, width=4, depth=2, image=16, batch=2, classes=4, block=DoubleConv):
        super().__init__()
        self.image, self.batch_size, self.classes = image, batch, classes
        sizes = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(block(before, after)
                                  for before, after in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(after, before, 2, stride=2)
                                for before, after in zip(sizes, sizes[1:], strict=False))
        self.join = nn.ModuleList(block(2 * size, size) for size in sizes[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    def batch(self, step, generator):
        images = torch.randn(self.batch_size, 3, self.image, self.image, generator=generator)
        return [images, torch.randint(self.classes, images[:, 0].shape, generator=generator)]

    def forward(self, images, labels):
        x, kept = images, []
        for level, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for level in reversed(range(len(self.up))):
            x = self.join[level](torch.cat([kept[level], self.up[level](x)], 1))
        return F.cross_entropy(self.head(x).float(), labels)


class Detector(nn.Module):
    """A one-stage detector with a feature pyramid, on images of another size in each step."""

    def __init__(self, width=4, levels=3, depth=1, image=24, batch=2):
        super().__init__()
        self.image, self.batch_size = image, batch
        sizes = [width << level for level in range(levels)]
        self.stages = nn.ModuleList(
            nn.Sequential(conv_norm(before, after, 3, 2, act=nn.ReLU(inplace=True)),
                          *(conv_norm(after, after, 3, act=nn.ReLU(inplace=True))
                            for _ in range(depth)))
            for before, after in zip([3, *sizes], sizes, strict=False))
        self.lateral = nn.ModuleList(nn.Conv2d(size, width, 1) for size in sizes)
        self.tower = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(2, width),
                                   nn.ReLU(inplace=True))
        self.score, self.box = nn.Conv2d(width, 3, 3, padding=1), nn.Conv2d(width, 4, 1)

    def batch(self, step, generator):
        sizes = random.Random(step)
        height, width = (8 * sizes.randint(self.image // 16, self.image // 8) for _ in range(2))
        return self.batch_of(height, width, generator)

    def batch_of(self, height, width, generator):
        corner = torch.rand(self.batch_size, 2, 2, generator=generator) * 0.5
        extent = torch.rand(self.batch_size, 2, 2, generator=generator) * 0.4 + 0.1
        return [torch.randn(self.batch_size, 3, height, width, generator=generator),
                torch.cat([corner, corner + extent], 2),
                torch.randint(3, (self.batch_size, 2), generator=generator)]

    def pyramid(self, x):
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        above = None
        for lateral, feature in reversed(list(zip(self.lateral, features, strict=True))):
            here = lateral(feature)
            if above is not None:
                here = here + F.interpolate(above, size=here.shape[-2:], mode="nearest")
            above = here
            yield self.tower(here)

    def forward(self, images, boxes, labels):
        losses = []
        for feature in self.pyramid(images):
            rows, columns = feature.shape[-2:]
            y = (torch.arange(rows) + 0.5) / rows
            x = (torch.arange(columns) + 0.5) / columns
            centre = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).flatten(0, 1)
            scores = self.score(feature).flatten(2).transpose(1, 2).float()
            found = self.box(feature).flatten(2).transpose(1, 2).float().sigmoid()
            found = torch.cat([centre - found[..., :2], centre + found[..., 2:]], -1)
            inside = ((centre[:, None] > boxes[:, None, :, :2])
                      & (centre[:, None] < boxes[:, None, :, 2:])).all(-1)  # image, place, box
            image, place, box = inside.nonzero(as_tuple=True)
            target = torch.zeros_like(scores)
            target[image, place, labels[image, box]] = 1.0
            losses.append(F.binary_cross_entropy_with_logits(scores, target))
            if len(image):
                losses.append(F.smooth_l1_loss(found[image, place], boxes[image, box]))
        return torch.stack(losses).sum()
