"""The networks of the trace corpus: those of the end-to-end tests, in sizes of a CPU and of a GPU.

At GPU scale parameters and activations are bfloat16 where the network allows it, and sizes are
chosen so that activations outweigh parameters, as in jobs that need less memory. Some networks
change their shapes from step to step: those of several steps.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from networks import NETWORKS
from networks.basic import BiLstm, Gpt


class VaryingGpt(Gpt):
    """Text of another length in each step."""

    def batch(self, step, generator):
        count = random.Random(step).randint(self.length // 2, self.length)
        shape = (self.batch_size, count + 1)
        return [torch.randint(self.tokens.num_embeddings, shape, generator=generator)]


class VaryingLstm(BiLstm):
    """Sequences of another length in each step."""

    def batch(self, step, generator):
        inputs, labels = super().batch(step, generator)
        count = random.Random(step).randint(self.length // 2, self.length)
        return [inputs[:count].clone(), labels[:count].clone()]


@dataclass(frozen=True)
class CorpusNetwork:
    """A network, its sizes at both scales, and how many steps of it are recorded."""

    kind: type[nn.Module]
    cpu: dict[str, int]
    gpu: dict[str, int]
    steps: int = 1
    half: bool = True  # bfloat16 at GPU scale
    foreach: bool = True  # at GPU scale the optimizer's operators take all parameters at once

    def build(self, scale: str) -> nn.Module:
        return self.kind(**(self.gpu if scale == "gpu" else self.cpu))


def _of(name: str, gpu: dict[str, int], **more) -> CorpusNetwork:
    return CorpusNetwork(NETWORKS[name].kind, NETWORKS[name].budget, gpu, **more)


CORPUS = {
    "resnet50": _of("resnet50", {"width": 64, "image": 112, "batch": 128}),
    "unet": _of("unet", {"width": 64, "depth": 4, "image": 256, "batch": 16}),
    "gpt": _of("gpt", {"vocabulary": 8192, "width": 1024, "heads": 16, "depth": 24,
                       "length": 1024, "batch": 8}),
    "gpt_lengths": CorpusNetwork(
        VaryingGpt, NETWORKS["gpt"].budget,
        {"vocabulary": 8192, "width": 768, "heads": 12, "depth": 12, "length": 1024, "batch": 16},
        steps=4),
    "bilstm": _of("bilstm", {"features": 512, "width": 1024, "layers": 2, "length": 32,
                             "batch": 512}),
    "densenet": _of("densenet", {"growth": 32, "layers": (6, 12, 24), "image": 56, "batch": 128}),
    "maml": _of("maml", {"width": 512, "depth": 4, "points": 8192, "tasks": 4, "steps": 4}),
    "detector": _of("detector", {"width": 64, "depth": 3, "image": 512, "batch": 16}, steps=4),
    "mlp": _of("mlp", {"features": 2048, "width": 2048, "depth": 32, "batch": 16384}),
    "vae": _of("vae", {"channels": 64, "depth": 8, "latent": 128, "image": 128, "batch": 128},
               half=False),
    "translation": _of("translation", {"vocabulary": 16000, "width": 512, "heads": 8, "depth": 6,
                                       "length": 256, "batch": 64}),
    "resnet18": _of("resnet18", {"width": 64, "image": 32, "batch": 1024}),
    "mobilenet": _of("mobilenet", {"width": 32, "blocks": 14, "image": 112, "batch": 128}),
    "vit": _of("vit", {"width": 768, "heads": 12, "depth": 12, "patch": 16, "image": 224,
                       "batch": 256}),
    "windows": _of("windows", {"width": 96, "heads": 3, "window": 7, "depth": 6,
                               "image": 112, "batch": 64}),
    "treelstm": _of("treelstm", {"vocabulary": 5000, "width": 512, "leaves": 64,
                                 "batch": 512}, steps=4),
    "bilstm_lengths": CorpusNetwork(
        VaryingLstm, NETWORKS["bilstm"].budget,
        {"features": 256, "width": 512, "layers": 2, "length": 32, "batch": 512}, steps=4),
    "gan": _of("gan", {"width": 64, "depth": 4, "latent": 128, "image": 64, "batch": 256},
               steps=2, half=False),
    "diffusion": _of("diffusion", {"width": 64, "depth": 4, "image": 32, "batch": 256},
                     half=False),
    "experts": _of("experts", {"vocabulary": 16000, "width": 768, "heads": 12,
                               "experts": 8, "depth": 8, "length": 512, "batch": 16},
                   steps=3),
    "statespace": _of("statespace", {"vocabulary": 16000, "width": 768, "state": 16,
                                     "depth": 4, "length": 64, "batch": 64}),
    "graph": _of("graph", {"features": 128, "width": 256, "depth": 6, "nodes": 100_000,
                           "edges": 800_000}),
}
