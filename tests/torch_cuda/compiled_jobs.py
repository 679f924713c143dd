"""Trains compiled networks on the stand-in CUDA device, whose Triton kernels write hashes.

    python compiled_jobs.py NAME...

One line of JSON on standard output has, by job: for every step fingerprints of the loss, of
gradients, parameters and buffers; how many kernels were launched; and how many graphs Tidepool, if
it is there, has kept for which reason.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

# Graphs are compiled for aligned inputs or others, which their cache does not tell apart.
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"

import value_kernels  # isort: skip  # before torch
import torch
import torch.nn.functional as F
import triton_kernels
from torch import nn

STEPS, WIDTH, ROWS = 3, 64, 256


class Block(nn.Module):
    """The half of a transformer's block that has no attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.2)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


class Normed(nn.Module):
    """A block that updates running statistics."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.BatchNorm1d(width)

    def forward(self, x):
        return F.relu(self.norm(self.linear(x))) + x.view_as(x)


class Convolved(nn.Module):
    """A block with a convolution."""

    KIND: type[nn.Module] = nn.Conv1d

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = self.KIND(1, 1, 3, padding=1)

    def forward(self, x):
        return F.relu(self.layer(x.unsqueeze(1))).squeeze(1) * 2


class Transposed(Convolved):
    """A block whose convolution adds in any order."""

    KIND = nn.ConvTranspose1d


class Attending(nn.Module):
    """A block of attention with dropout, which draws from the default generator."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project, self.drop = nn.Linear(width, 3 * width), nn.Dropout(0.2)

    def forward(self, x):
        projected = self.project(self.drop(x)).view(4, -1, 2, 3, x.shape[1] // 2)
        heads = projected.transpose(1, 2).unbind(3)
        attended = F.scaled_dot_product_attention(*heads, dropout_p=0.2)
        return x + self.drop(attended.transpose(1, 2).reshape(x.shape))


# "sliced": later steps give the first block an input that is not aligned, and its graph copies it.
# "interrupted": in the middle of the first block's graph others' results are restored; "to draw":
# and another graph draws.
KINDS = {"block": Block, "sliced": Block, "normed": Normed, "convolved": Convolved,
         "transposed": Transposed, "attending": Attending, "interrupted": Attending,
         "interrupted to draw": Attending}


def statistics() -> dict:
    """Return how many graphs Tidepool has kept for which reasons; nothing without it."""
    tidepool = sys.modules.get("tidepool")
    return tidepool.stats().get("compiled", {}).get("kept", {}) if tidepool else {}


class Interruption:
    """Reads what dropout and a compiled graph have made, in the middle of another graph.

    Then it may call that graph. Finalizers do such things whenever Python finds garbage.
    """

    def __init__(self, draws: bool) -> None:
        self._block = Attending(WIDTH).cuda()
        self._block.compile()
        self._draws = draws
        self._made: list[torch.Tensor] = []
        self.read = ""
        self._run = triton_kernels.Kernel.run

    def prepare(self) -> None:
        """Make what the next kernel that is launched will find."""
        with torch.no_grad():
            ones = torch.ones(ROWS, WIDTH, device="cuda")
            made = [F.dropout(ones), self._block(ones)]
        triton_kernels.Kernel.run = lambda *args, **options: self._interrupt(*args, **options)
        self._made = made

    def _interrupt(self, *arguments, **options) -> None:
        triton_kernels.Kernel.run = self._run
        for each in self._made:
            each.data_ptr()
        if self._draws:
            with torch.no_grad():
                self._made.append(self._block(torch.ones(ROWS, WIDTH, device="cuda")))
        self.read = value_kernels.fingerprint(self._made)
        self._run(*arguments, **options)


def train(name: str) -> list[dict[str, object]]:
    """Train a network; return what each step left."""
    torch._dynamo.reset()
    torch.manual_seed(1)
    blocks = [KINDS[name](WIDTH) for _ in range(6)]
    model = nn.Sequential(*blocks).cuda()
    for block in blocks:
        block.compile()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = torch.Generator().manual_seed(2)
    interruption = Interruption("draw" in name) if name.startswith("interrupted") else None
    steps: list[dict[str, object]] = []
    for step in range(STEPS):
        if interruption and step > 0:
            interruption.prepare()
        drawn = torch.randn(ROWS * WIDTH + 1, generator=data).cuda()
        batch = (drawn[1:] if name == "sliced" and step > 0 else drawn[:-1]).view(ROWS, WIDTH)
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        prints = {"loss": [loss], "gradients": [each.grad for each in model.parameters()],
                  "parameters": model.parameters(), "buffers": model.buffers()}
        steps.append({kind: value_kernels.fingerprint(each) for kind, each in prints.items()})
        steps[-1]["offset"] = torch.cuda.default_generators[0].get_offset()
        if interruption:
            steps[-1]["read"] = interruption.read
    return steps


def main() -> None:
    warnings.simplefilter("ignore")
    kernels = value_kernels.install()
    triton_kernels.install()
    found = {}
    for name in sys.argv[1:]:
        launched, kept = len(triton_kernels.Kernel.launched), Counter(statistics())
        steps = train(name)
        found[name] = {"steps": steps, "launched": len(triton_kernels.Kernel.launched) - launched,
                       "kept": Counter(statistics()) - kept}
    print(json.dumps({**found, "untreated": kernels.untreated()}))


if __name__ == "__main__":
    main()
