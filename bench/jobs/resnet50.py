"""Train a ResNet-50 for a few steps on random images, and digest everything it computed.

An ordinary PyTorch script: it knows nothing of Tidepool. Prints one line a step, and writes JSON
with SHA-256 digests of losses, gradients, parameters and buffers, and the seconds of each step.
"""

import argparse
import hashlib
import json
import time

import torch
from torch import nn


class Bottleneck(nn.Module):
    """A residual block: 1x1, 3x3 and 1x1 convolutions (He et al., 2015)."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        """Map (N, inputs, H, W) to (N, 4*width, H/stride, W/stride)."""
        return self.relu(self.body(x) + self.shortcut(x))


def resnet(counts=(3, 4, 6, 3), classes=1000):
    """Build a network of so many blocks a stage; parameters from the global generator."""
    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    inputs = 64
    for stage, blocks in enumerate(counts):
        for block in range(blocks):
            width, stride = 64 << stage, 2 if stage and block == 0 else 1
            layers.append(Bottleneck(inputs, width, stride))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def digest(tensors):
    """Return the SHA-256 over names and bytes of a dict of tensors."""
    sha = hashlib.sha256()
    for name, tensor in tensors.items():
        sha.update(name.encode())
        sha.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()


def train(options):
    """Run the steps; return what the JSON file holds."""
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model = resnet().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    result = {"losses": [], "seconds": []}
    for step in range(options.steps):
        images = torch.randn(options.batch, 3, 224, 224)
        labels = torch.randint(0, 1000, (options.batch,))
        start = time.perf_counter()
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result["seconds"].append(time.perf_counter() - start)
        result["losses"].append(loss.item().hex())
        print(f"step {step + 1}: loss {loss.item():.6f}", flush=True)
        del loss, images, labels
    parameters = dict(model.named_parameters())
    result["gradients"] = digest({name: p.grad for name, p in parameters.items()})
    result["parameters"] = digest(parameters)
    result["buffers"] = digest(dict(model.named_buffers()))
    state = [optimizer.state[p]["momentum_buffer"] for p in parameters.values()]
    inputs = options.batch * 3 * 224 * 224 * 4 + options.batch * 8
    # Parameters, gradients, optimizer state, buffers and inputs: what no schedule can do without.
    result["fixed_bytes"] = inputs + sum(
        t.numel() * t.element_size()
        for t in (*parameters.values(), *(p.grad for p in parameters.values()), *state,
                  *model.buffers())
    )  # fmt: skip
    return result


def main():
    """Parse the command line, train, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    result = train(options)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
