"""An ordinary training script for what `tidepool probe` is measured on.

    python probed_job.py NETWORK [--batch N] [--steps N] [--weights FILE] [--times FILE]

It knows nothing of Tidepool. Under `torch.distributed.run` its ranks train as DDP. Where asked to,
it begins with the weights of a file, into which it writes its own if there is none, and rank 0
writes the ms of processor time that each of its steps took.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from networks.attention import Llama
from networks.basic import Gpt, Lstm
from networks.other import Diffusion, Gan
from networks.vision import Detector, ResNet

# Built with a batch size; steps take some tenths of a second, so that operators are not tiny.
NETWORKS = {
    "cnn": (ResNet, {"width": 16, "image": 48, "blocks": (2, 2, 2, 2)}, 16),
    "gpt": (Gpt, {"vocabulary": 512, "width": 192, "heads": 6, "depth": 6, "length": 128}, 8),
    "lstm": (Lstm, {"vocabulary": 500, "width": 128, "depth": 3, "length": 64}, 32),
    "detector": (Detector, {"width": 16, "depth": 3, "image": 96}, 8),
    "gan": (Gan, {"width": 24, "depth": 3, "latent": 32, "image": 32}, 32),
    "lora": (Llama, {"width": 192, "heads": 6, "groups": 2, "inner": 512, "depth": 6,
                     "vocabulary": 512, "length": 128, "rank": 8}, 8),
    "diffusion": (Diffusion, {"width": 24, "depth": 3, "image": 32}, 16),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--times", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kind, sizes, batch_size = NETWORKS[options.network]
    model = kind(**sizes, batch=options.batch or batch_size)
    if options.weights:
        if not options.weights.exists():
            torch.save(model.state_dict(), options.weights)
        model.load_state_dict(torch.load(options.weights))
    groups = model.parts() if hasattr(model, "parts") else [model]
    optimizers = [torch.optim.AdamW([p for p in group.parameters() if p.requires_grad], lr=1e-4)
                  for group in groups]
    network, ranked = model, "RANK" in os.environ
    if ranked:
        torch.distributed.init_process_group("gloo")
        network = torch.nn.parallel.DistributedDataParallel(model)
    generator = torch.Generator().manual_seed(int(os.environ.get("RANK", "0")))
    times = []
    for number in range(options.steps):
        start = time.process_time()
        batch = model.batch(number, generator)
        for part, optimizer in enumerate(optimizers):
            which = {"part": part} if len(optimizers) > 1 else {}
            with torch.autocast("cpu", torch.bfloat16, enabled=options.network == "lora"):
                loss = network(*batch, **which)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        times.append(1e3 * (time.process_time() - start))
    if options.times and os.environ.get("RANK", "0") == "0":
        options.times.write_text(json.dumps(times))
    if ranked:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
