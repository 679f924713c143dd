"""An ordinary script whose first step may not fit into memory, and whose next one does.

    python out_of_memory_job.py SCENARIO OUT

Writes the text of the first step's error, if there was one, and digests of the second step. The
first step does not change what the second one starts from.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from train_job import digest


def from_outside(*shape: int) -> torch.Tensor:
    """Return a tensor read from memory that is not PyTorch's, as from a checkpoint or a file."""
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return torch.empty(shape).copy_(torch.from_numpy(values))


def loaded(model: nn.Module) -> nn.Module:
    """Replace a model's parameters by some from outside."""
    for parameter in model.parameters():
        parameter.data = from_outside(*parameter.shape)
    return model


def one_request() -> None:
    """Ask for 256 MiB in one piece."""
    torch.ones(64 << 20)


def parameters_and_gradients() -> None:
    """Take a step of a loaded model with 36 MiB of parameters and as many of unscaled gradients."""
    model = loaded(nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(9)]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(model(torch.randn(8, 1024)).square().mean()).backward()
    scaler.unscale_(optimizer)  # writes gradients and a flag at once, which is not recorded
    optimizer.step()


def pinned_inputs() -> None:
    """Take a step that joins eight results of 8 MiB: one operator needs all of them at once.

    Beside them there are a batch, optimizer state, and memory shared with NumPy.
    """
    model = loaded(nn.Linear(256, 256))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batch = from_outside(8192, 256)
    shared = torch.zeros(1 << 20)
    shared.numpy()[0] = 1
    model(batch[:8]).sum().backward()
    optimizer.step()
    parts = [torch.sin(model(batch) * k) for k in range(8)]
    (torch.cat(parts).sum() + shared[0]).backward()


class Net(nn.Module):
    """What the second step trains."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = F.dropout(torch.tanh(layer(x)), 0.1, self.training)
        return x.square().mean()


def small_step(model: nn.Module) -> dict[str, str]:
    """Train one step and return digests of all that came out."""
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss = model(torch.randn(1024, 256))
    loss.backward()
    optimizer.step()
    digests = {"loss": digest(loss)}
    for name, parameter in model.named_parameters():
        digests[f"parameter {name}"] = digest(parameter)
        digests[f"gradient {name}"] = digest(parameter.grad)
        for key, value in optimizer.state[parameter].items():
            digests[f"optimizer state {key} of {name}"] = digest(value)
    digests["random number generator"] = digest(torch.get_rng_state())
    return digests


def main() -> None:
    torch.set_num_threads(1)
    scenario, out = sys.argv[1:]
    torch.manual_seed(0)
    model = Net()
    result = {"error": None, "kind": None}
    print("first step")
    try:
        {"one_request": one_request, "parameters_and_gradients": parameters_and_gradients,
         "pinned_inputs": pinned_inputs}[scenario]()
    except Exception as error:
        result["error"], result["kind"] = str(error), type(error).__name__
        assert isinstance(error, torch.OutOfMemoryError), type(error)
    print("second step")
    result["digests"] = small_step(model)
    Path(out).write_text(json.dumps(result))
    print("done")


if __name__ == "__main__":
    main()
