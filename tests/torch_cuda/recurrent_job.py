"""Runs a recurrent layer twice, and prints what was fetched from the second tier meanwhile.

    python recurrent_job.py

One line of JSON on standard output has, for each call, the bytes that were fetched, and the bytes
of the layer's parameters, which no operator has used before the first call.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin
import torch

device = standin.Device()
WIDTH, LENGTH = 256, 32


def fetched() -> int:
    """Return the bytes that have been fetched so far; 0 without Tidepool."""
    tidepool = sys.modules.get("tidepool")
    return tidepool.stats()["devices"]["cuda:0"]["fetched_bytes"] if tidepool else 0


def main() -> None:
    torch.backends.cudnn.enabled = False  # the stand-in device has no recurrent layers of cuDNN
    layer = torch.nn.LSTM(WIDTH, WIDTH, batch_first=True).cuda()
    given = torch.zeros(1, LENGTH, WIDTH, device="cuda")
    counts = [fetched()]
    for _ in range(2):
        layer(given)
        counts.append(fetched())
    print(json.dumps({"fetched": [b - a for a, b in zip(counts, counts[1:], strict=False)],
                      "parameters": sum(each.nbytes for each in layer.parameters()),
                      "misuses": device.misuses()}), flush=True)
    os._exit(0)  # as the other jobs do


if __name__ == "__main__":
    main()
