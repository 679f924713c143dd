"""Takes all of a device in blocks, moves its pages, and gives it back; prints facts as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin
import torch

GIB = 1 << 30
device = standin.Device()


def main() -> None:
    total = torch.cuda.mem_get_info()[1]
    kept = [torch.empty(GIB // 2, dtype=torch.uint8, device="cuda")
            for _ in range(2 * total // GIB)]
    facts = {"handles": device.live("handles"), "used": device.used_bytes()}
    del kept[::2]
    one = torch.empty(total // 2, dtype=torch.uint8, device="cuda")  # of pages from everywhere
    facts |= {"moved": device.live("handles"), "bytes": one.numel()}
    del one
    kept.clear()
    torch.cuda.empty_cache()
    print(json.dumps({**facts, "left": device.used_bytes(), "misuses": device.misuses()}))


if __name__ == "__main__":
    main()
