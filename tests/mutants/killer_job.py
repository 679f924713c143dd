"""Train small models of killer_models.py, one after another, and write what came out of each step.

    python killer_job.py --out digests.json views in_place

An ordinary training script: with or without Tidepool, and with a mutant of
mutants.py, it does the same. Each line of the file is one step: SHA-256 digests of
loss, results, gradients, parameters, buffers and the random generator's state; and the replays that
the model has taken.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path


def start_peer() -> None:
    """Fork into the two processes of a collective job, before PyTorch has any threads."""
    out = sys.argv[sys.argv.index("--out") + 1]
    os.environ.update(RANK="0", GLOO_SOCKET_IFNAME="lo", RENDEZVOUS=f"{out}.{os.getpid()}")
    if os.fork() == 0:
        os.environ["RANK"] = "1"


if __name__ == "__main__" and {"collective", "late_collective"} & set(sys.argv):
    start_peer()

import torch  # noqa: E402
from killer_models import MODELS  # noqa: E402

STEPS = 3
FEATURES, BATCH = 16, 8


def digest(tensor: torch.Tensor) -> str:
    """Return the SHA-256 of a tensor's elements, read from a copy."""
    copy = tensor.detach().clone(memory_format=torch.contiguous_format)
    return hashlib.sha256(copy.reshape(-1).view(torch.uint8).numpy()).hexdigest()


def state(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, str]:
    """Return digests of everything that the next step depends on, the loss and the results."""
    found = {"loss": digest(loss)}
    found.update({f"result {key}": digest(value) for key, value in model.results.items()})
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            found[f"gradient {name}"] = digest(parameter.grad)
        found[f"parameter {name}"] = digest(parameter)
    found.update({f"buffer {name}": digest(value) for name, value in model.named_buffers()})
    found["random generator"] = digest(torch.get_rng_state())
    return found


def replays() -> int:
    """Return how many operators Tidepool has replayed; 0 where it is not attached."""
    tidepool = sys.modules.get("tidepool")
    devices = tidepool.stats()["devices"] if tidepool else {}
    return devices["cpu"]["operators_replayed"] if devices else 0


def train(name: str, out: Path) -> None:
    """Train a model for a few steps; append a line to `out` after each."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(3)
    model = MODELS[name](FEATURES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    data = torch.Generator().manual_seed(4)
    before = replays()
    for number in range(STEPS):
        loss = model(torch.randn(BATCH, FEATURES, generator=data, dtype=torch.float32))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        line = {"model": name, "step": number, "replays": replays() - before}
        line["state"] = state(model, loss)
        if os.environ.get("RANK", "0") == "0":
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", choices=MODELS)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    for name in options.models:
        train(name, options.out)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()  # its threads may not outlive the interpreter


if __name__ == "__main__":
    main()
