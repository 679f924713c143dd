"""The networks of the training benchmark: published sizes, batches, and how each is trained."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from networks.attention import Bert, BertBlock, Llama, LlamaBlock, VisionTransformer
from networks.basic import Gpt, GptBlock, Lstm
from networks.vision import Bottleneck, NormedPair, ResNet, UNet

WORD_DEVIATION = 0.02  # of words' first values: output layers share them


@dataclass(frozen=True)
class Network:
    """A network's class, its sizes and batch: in full, at a scale for CPUs, and in a rehearsal.

    `block` is what checkpointing wraps. `medium` and `small` are what differs from `full`.
    """

    kind: type[nn.Module]
    block: type[nn.Module]
    full: dict = field(default_factory=dict)
    small: dict = field(default_factory=dict)
    medium: dict = field(default_factory=dict)
    batch: int = 8
    medium_batch: int = 4
    small_batch: int = 16
    adam: bool = True
    images: bool = False

    def build(self, scale: str) -> nn.Module:
        sizes = {"full": {}, "medium": self.medium, "small": self.small}
        model = self.kind(**{**self.full, **sizes[scale]})
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                module.weight.data.mul_(WORD_DEVIATION)
        return model

    def batch_size(self, scale: str) -> int:
        return {"full": self.batch, "medium": self.medium_batch, "small": self.small_batch}[scale]

    def optimizer(self, model: nn.Module, device: str) -> torch.optim.Optimizer:
        """Return AdamW for what has attention or is recurrent, SGD with momentum for the rest."""
        trained = [p for p in model.parameters() if p.requires_grad]
        if self.adam:
            return torch.optim.AdamW(trained, lr=1e-4, fused=device == "cuda")
        return torch.optim.SGD(trained, lr=0.01, momentum=0.9)


RESNET = {"width": 64, "image": 224, "classes": 1000, "stem": (7, 2), "in_place": False}
GPT2 = {"vocabulary": 50257, "width": 1024, "heads": 16, "depth": 24, "length": 1024,
        "attention_dropout": (0.1,)}
MEDIUM_TEXT = {"width": 256, "heads": 8, "depth": 8, "vocabulary": 2000, "length": 128}
TEXT = {"width": 128, "heads": 4, "depth": 4, "vocabulary": 200, "length": 64}
NETWORKS: dict[str, Network] = {
    # He et al., 2015.
    "resnet50": Network(ResNet, Bottleneck, RESNET, {"blocks": (1, 1), "image": 64},
                        {"image": 96}, batch=128, medium_batch=6, small_batch=8, adam=False,
                        images=True),
    "resnet152": Network(ResNet, Bottleneck, {**RESNET, "blocks": (3, 8, 36, 3)},
                         {"blocks": (1, 2), "image": 64}, {"image": 64}, batch=64, small_batch=8,
                         adam=False, images=True),
    # Ronneberger et al., 2015: 64 to 1024 channels; padded.
    "unet": Network(UNet, NormedPair, {"width": 64, "depth": 4, "image": 512, "classes": 2,
                                       "block": NormedPair},
                    {"width": 8, "depth": 2, "image": 64}, {"width": 24, "image": 96},
                    batch=8, adam=False, images=True),
    # ViT-L/16: Dosovitskiy et al., 2020.
    "vit_large": Network(VisionTransformer, nn.TransformerEncoderLayer,
                         {"width": 1024, "heads": 16, "depth": 24, "patch": 16, "image": 224,
                          "classes": 1000, "factor": 4},
                         {"width": 128, "heads": 4, "depth": 4, "image": 96},
                         {"width": 192, "heads": 6, "depth": 8, "image": 128}, batch=64,
                         medium_batch=8, images=True),
    # Radford et al., 2019.
    "gpt2_medium": Network(Gpt, GptBlock, GPT2, TEXT, MEDIUM_TEXT),
    "gpt2_large": Network(Gpt, GptBlock, {**GPT2, "width": 1280, "heads": 20, "depth": 36}, TEXT,
                          MEDIUM_TEXT, batch=4),
    "bert_large": Network(Bert, BertBlock, {**GPT2, "vocabulary": 30522, "length": 512}, TEXT,
                          MEDIUM_TEXT, batch=16),
    # Llama 3.2 1B, with adapters of rank 16.
    "llama_lora": Network(Llama, LlamaBlock,
                          {"width": 2048, "heads": 32, "groups": 8, "inner": 8192, "depth": 16,
                           "vocabulary": 128256, "length": 1024, "rank": 16},
                          {**TEXT, "groups": 2, "inner": 256, "rank": 4},
                          {**MEDIUM_TEXT, "groups": 4, "inner": 512, "rank": 8}, batch=4),
    "bilstm": Network(Lstm, nn.LSTM, {"vocabulary": 30000, "width": 1024, "depth": 4,
                                      "length": 256, "tags": 50},
                      {"width": 64, "depth": 2, "vocabulary": 200, "length": 32},
                      {"width": 256, "vocabulary": 2000, "length": 64}, batch=64,
                      medium_batch=16),
}
