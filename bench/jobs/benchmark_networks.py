"""The networks of the training benchmark: sizes, batches, and how each is trained."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from text_networks import BiLstm, Llama, Transformer
from torch import nn
from vision_networks import ResNet, UNet, VisionTransformer


@dataclass(frozen=True)
class Network:
    """A network's class, its options at full scale and in a rehearsal, and its batch at each."""

    kind: type[nn.Module]
    options: dict = field(default_factory=dict)
    small: dict = field(default_factory=dict)
    batch: int = 8
    small_batch: int = 16
    adam: bool = True
    images: bool = False

    def build(self, scale: str) -> nn.Module:
        return self.kind(**{**self.options, **(self.small if scale == "small" else {})})

    def batch_size(self, scale: str) -> int:
        return self.small_batch if scale == "small" else self.batch

    def optimizer(self, model: nn.Module, device: str) -> torch.optim.Optimizer:
        """Return AdamW for what has attention or is recurrent, SGD with momentum for the rest."""
        trained = [p for p in model.parameters() if p.requires_grad]
        if self.adam:
            return torch.optim.AdamW(trained, lr=1e-4, fused=device == "cuda")
        return torch.optim.SGD(trained, lr=0.01, momentum=0.9)


TEXT = {"width": 128, "heads": 4, "depth": 4, "vocabulary": 200, "length": 64}
NETWORKS: dict[str, Network] = {
    "resnet50": Network(ResNet, small={"counts": (1, 1), "side": 64}, batch=128,
                        small_batch=8, adam=False, images=True),
    "resnet152": Network(ResNet, {"counts": (3, 8, 36, 3)}, {"counts": (1, 2), "side": 64},
                         batch=64, small_batch=8, adam=False, images=True),
    "unet": Network(UNet, small={"width": 8, "depth": 2, "side": 64}, batch=8, adam=False,
                    images=True),
    "vit_large": Network(VisionTransformer, small={"width": 128, "heads": 4, "depth": 4,
                                                   "side": 96}, batch=64, images=True),
    "gpt2_medium": Network(Transformer, small=TEXT),
    "gpt2_large": Network(Transformer, {"width": 1280, "heads": 20, "depth": 36}, TEXT, batch=4),
    "bert_large": Network(Transformer, {"vocabulary": 30522, "length": 512, "causal": False}, TEXT,
                          batch=16),
    "llama_lora": Network(Llama, small={**TEXT, "groups": 2, "inner": 256, "rank": 4}, batch=4),
    "bilstm": Network(BiLstm, small={"width": 64, "depth": 2, "vocabulary": 200, "length": 32},
                      batch=64),
}

