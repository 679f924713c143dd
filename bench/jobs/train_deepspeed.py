"""A network that DeepSpeed trains on the CPU, with ZeRO's stages 1 to 3, in float32 or bfloat16.

Usage: python -m torch.distributed.run --nproc-per-node 2 train_deepspeed.py STAGE [TYPE]

Needs the package deepspeed (DS_BUILD_OPS=0, DS_ACCELERATOR=cpu), which nothing else here does. Each
rank prints one line with a digest of its losses and, but in stage 3, of its parameters.
"""

from __future__ import annotations

import hashlib
import os
import sys

import deepspeed
import torch
from torch import nn

WIDTH, BLOCKS, BATCH, LENGTH, CLASSES, STEPS, ACCUMULATED = 256, 6, 8, 64, 16, 4, 2
BUCKET = 600_000  # elements that are reduced together; the default would be 2 GB


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                    nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


def configuration(stage: int, type_name: str) -> dict:
    return {"train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": ACCUMULATED,
            "gradient_clipping": 1.0, "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": stage, "overlap_comm": False,
                                  "reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
            "bf16": {"enabled": type_name == "bfloat16"}}


def main() -> None:
    stage, type_name = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "float32"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(BLOCKS)), nn.Linear(WIDTH, CLASSES))
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(),
                                  config=configuration(stage, type_name))[0]
    generator = torch.Generator().manual_seed(int(os.environ["RANK"]))
    digest = hashlib.sha256()
    for _ in range(STEPS * ACCUMULATED):
        x = torch.randn(BATCH, LENGTH, WIDTH, generator=generator).to(getattr(torch, type_name))
        wanted = torch.randint(0, CLASSES, (BATCH, LENGTH), generator=generator)
        loss = nn.functional.cross_entropy(engine(x).flatten(0, 1).float(), wanted.flatten())
        engine.backward(loss)
        engine.step()
        digest.update(repr(loss.item()).encode())
    if stage < 3:
        for parameter in model.parameters():
            digest.update(repr(parameter.tolist()).encode())
    print(f"rank {os.environ['RANK']}: {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
