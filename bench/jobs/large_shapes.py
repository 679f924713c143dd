"""Record shapes of jobs that are larger than any machine here, for tidepool-replay.

    large_shapes.py llama 8b|32b FILE [--sequences N] [--half] [--loop]
    large_shapes.py resnet 50|101 FILE --batch N

All are trained by AdamW. `llama`: full fine-tuning of the shape of Llama 3.1 8B, or of one with 32
billion parameters (that of Qwen 2.5 32B), with sequences of 2048 tokens. Parameters, gradients and
the optimizer's state are float32, 16 bytes a parameter, and products are computed in bfloat16, as
under autocast; with --half all are bfloat16, 8 bytes a parameter. The optimizer's operators take
all parameters at once (`foreach`); with --loop it has done with one before it reads the next, as a
fused one has, too. `resnet`: ImageNet's ResNets in float32.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import corpus_job
from corpus_networks import CorpusNetwork
from networks.attention import LlamaBlock
from networks.vision import ResNet

LLAMAS = {
    "8b": {"width": 4096, "heads": 32, "groups": 8, "inner": 14336, "depth": 32,
           "vocabulary": 128256},
    "32b": {"width": 5120, "heads": 40, "groups": 8, "inner": 27648, "depth": 64,
            "vocabulary": 152064},
}
RESNETS = {"50": (3, 4, 6, 3), "101": (3, 4, 23, 3)}


class HalfLinear(nn.Linear):
    """A linear layer that is computed in bfloat16 from parameters of any type."""

    def forward(self, x):
        return F.linear(x, self.weight.to(torch.bfloat16))


class TrainedLlama(nn.Module):
    """The shape of Llama 3, all of it trained; the output layer has words of its own."""

    def __init__(self, width, heads, groups, inner, depth, vocabulary, length, batch) -> None:
        super().__init__()
        self.length, self.batch_size = length, batch
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, groups, inner, 1)
                                    for _ in range(depth))
        for layer in self.layers:
            sizes = {"q": (width, width), "k": (width, width * groups // heads),
                     "v": (width, width * groups // heads), "out": (width, width),
                     "gate": (width, inner), "up": (width, inner), "down": (inner, width)}
            for name, size in sizes.items():
                setattr(layer, name, HalfLinear(*size, bias=False))
        self.norm = nn.RMSNorm(width)
        self.words = HalfLinear(width, vocabulary, bias=False)
        self.register_buffer("turns", torch.empty(2, length, width // heads, dtype=torch.bfloat16))

    def batch(self, step, generator):
        shape = (self.batch_size, self.length + 1)
        return [torch.randint(self.tokens.num_embeddings, shape, generator=generator)]

    def forward(self, text):
        x = self.tokens(text[:, :-1]).to(torch.bfloat16)
        for layer in self.layers:
            x = layer(x, *self.turns)
        logits = self.words(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("llama", "resnet"))
    parser.add_argument("size", choices=(*LLAMAS, *RESNETS))
    parser.add_argument("path", type=Path, metavar="FILE")
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--loop", action="store_true")
    parsed = parser.parse_args()
    if parsed.kind == "llama":
        network = CorpusNetwork(TrainedLlama, {}, {**LLAMAS[parsed.size], "length": 2048,
                                                   "batch": parsed.sequences},
                                half=parsed.half, foreach=not parsed.loop)
    else:
        network = CorpusNetwork(ResNet, {}, {"width": 64, "image": 224, "classes": 1000,
                                             "stem": (7, 2), "blocks": RESNETS[parsed.size],
                                             "batch": parsed.batch}, half=False)
    title = f"{parsed.kind}_{parsed.size}"
    corpus_job.record_shapes(network, parsed.path, title,
                             lambda training: map(training.batch, range(network.steps)))


if __name__ == "__main__":
    main()
