"""An ordinary training script: trains networks one after another and writes what came out.

    python train_job.py --out digests.json --size chaos --steps 3 mlp:sgd gpt:adam_loop

For each step of each case (network:mode) it writes SHA-256 digests of the loss, gradients,
parameters, buffers, optimizer state and the random number generator's state.
"""

import argparse
import gc
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from networks import NETWORKS

MODES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, foreach=False),
    "adam_loop": lambda p: torch.optim.Adam(p, lr=1e-3, foreach=False),
    "adam_foreach": lambda p: torch.optim.Adam(p, lr=1e-3, foreach=True),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
    "autocast": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=False),
}


def digest(tensor: torch.Tensor) -> str:
    """Return the SHA-256 of a tensor's elements, read from a copy."""
    copy = tensor.detach().clone(memory_format=torch.contiguous_format)
    return hashlib.sha256(copy.reshape(-1).view(torch.uint8).numpy()).hexdigest()


def size_of(tensors) -> int:
    """Return the bytes of distinct tensors' elements."""
    return sum(t.numel() * t.element_size() for t in {id(t): t for t in tensors}.values())


class WorkingSet(TorchDispatchMode):
    """Finds the operator with the most bytes of operands and results."""

    def __init__(self) -> None:
        super().__init__()
        self.most, self.operator = 0, ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = torch.utils._pytree.tree_leaves((args, kwargs, result))
        sizes = {t.untyped_storage()._cdata: t.untyped_storage().nbytes()
                 for t in tensors if isinstance(t, torch.Tensor)}
        if sum(sizes.values()) > self.most:
            self.most, self.operator = sum(sizes.values()), str(func)
        return result


class Training:
    """One network with its optimizer."""

    def __init__(self, network: str, size: str, mode: str, seed: int) -> None:
        torch.manual_seed(seed)
        self.data = torch.Generator().manual_seed(seed + 1)
        self.model = NETWORKS[network].build(size)
        parts = self.model.parts() if hasattr(self.model, "parts") else [self.model]
        self.optimizers = [MODES[mode](part.parameters()) for part in parts]
        self.mode = mode
        self.losses: list[torch.Tensor] = []
        self.input_bytes = 0

    def step(self, number: int) -> None:
        batch = self.model.batch(number, self.data)
        self.input_bytes = max(self.input_bytes, size_of(batch))
        self.losses = []
        for part, optimizer in enumerate(self.optimizers):
            which = {"part": part} if hasattr(self.model, "parts") else {}
            with torch.autocast("cpu", torch.bfloat16, enabled=self.mode == "autocast"):
                loss = self.model(*batch, **which)
            optimizer.zero_grad()
            loss.backward()
            if self.mode == "sgd":
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            self.losses.append(loss.detach())
        if hasattr(self.model, "after_step"):
            self.model.after_step()

    def state(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield name and contents of everything that the next step depends on, and the loss."""
        for part, loss in enumerate(self.losses):
            yield f"loss {part}" if part else "loss", loss
        names = {}
        for name, parameter in self.model.named_parameters():
            names[parameter] = name
            if parameter.grad is not None:
                yield f"gradient {name}", parameter.grad
            yield f"parameter {name}", parameter
        for name, buffer in self.model.named_buffers():
            yield f"buffer {name}", buffer
        for parameter, key, value in self.optimizer_state():
            yield f"optimizer state {key} of {names[parameter]}", torch.as_tensor(value)
        yield "random number generator", torch.get_rng_state()

    def optimizer_state(self) -> Iterator[tuple]:
        """Yield parameter, key and value of each entry of the optimizers' states."""
        for optimizer in self.optimizers:
            for parameter, entry in optimizer.state.items():
                for key, value in entry.items():
                    yield parameter, key, value

    def fixed_bytes(self) -> int:
        """Return the bytes of parameters, gradients, optimizer state and the largest inputs."""
        parameters = list(self.model.parameters())
        gradients = [p.grad for p in parameters if p.grad is not None]
        state = [value for _, _, value in self.optimizer_state()
                 if isinstance(value, torch.Tensor)]
        return size_of(parameters) + size_of(gradients) + size_of(state) + self.input_bytes


def counters() -> dict:
    """Return Tidepool's counters, if somebody attached it to this process."""
    tidepool = sys.modules.get("tidepool")
    return tidepool.stats()["devices"].get("cpu", {}) if tidepool else {}


def run_case(name: str, options: argparse.Namespace) -> dict:
    """Train one case and return what is to be written about it."""
    network, mode = name.split(":")
    result = {"steps": [], "seconds": [], "error": None, "fixed_bytes": 0}
    before = counters()
    try:
        training = Training(network, options.size, mode, options.seed)
        for number in range(options.steps):
            started = time.process_time()
            training.step(number)
            result["seconds"].append(time.process_time() - started)
            result["steps"].append({key: digest(tensor) for key, tensor in training.state()})
        result["fixed_bytes"] = training.fixed_bytes()
    except torch.OutOfMemoryError as error:
        result["error"] = str(error)
    after = counters()
    result["counters"] = {key: value - before[key] for key, value in after.items()
                          if isinstance(value, int)}
    return result


def measure_working_set(name: str, options: argparse.Namespace) -> dict:
    """Return the largest operator of two steps (the second has optimizer state)."""
    network, mode = name.split(":")
    training = Training(network, options.size, mode, options.seed)
    with WorkingSet() as largest:
        training.step(0)
        training.step(1)
    return {"working_set_bytes": largest.most, "operator": largest.operator}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="+", metavar="network:mode")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", choices=("chaos", "budget"), default="chaos")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--working-set", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = {}
    for name in options.cases:
        run = measure_working_set if options.working_set else run_case
        results[name] = run(name, options)
        gc.collect()
    options.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
