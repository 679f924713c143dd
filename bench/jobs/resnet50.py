"""Train a ResNet-50 for a few steps on random images, and digest everything it computed.

An ordinary PyTorch script: it knows nothing of Tidepool. Prints one line a step, and writes JSON
with SHA-256 digests of losses, gradients, parameters and buffers, and the seconds of each step, by
the clock and of the processors.
"""

import argparse
import hashlib
import json
import time

import torch
from benchmark_networks import NETWORKS


def digest(tensors):
    """Return the SHA-256 over names and bytes of a dict of tensors."""
    sha = hashlib.sha256()
    for name, tensor in tensors.items():
        sha.update(name.encode())
        # NumPy gets a copy, since memory that it has seen cannot be evicted any more.
        sha.update(tensor.detach().clone().reshape(-1).view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()


def train(options):
    """Run the steps; return what the JSON file holds."""
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model = NETWORKS["resnet50"].build("full").train()
    if options.optimizer == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    result = {"losses": [], "seconds": [], "processor_seconds": []}
    for step in range(options.steps):
        images = torch.randn(options.batch, 3, 224, 224)
        labels = torch.randint(0, 1000, (options.batch,))
        start, start_processor = time.perf_counter(), time.process_time()
        loss = model(images, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result["seconds"].append(time.perf_counter() - start)
        result["processor_seconds"].append(time.process_time() - start_processor)
        result["losses"].append(loss.item().hex())
        print(f"step {step + 1}: loss {loss.item():.6f}", flush=True)
        del loss, images, labels
    parameters = dict(model.named_parameters())
    result["gradients"] = digest({name: p.grad for name, p in parameters.items()})
    result["parameters"] = digest(parameters)
    result["buffers"] = digest(dict(model.named_buffers()))
    state = [value for p in parameters.values() for value in optimizer.state[p].values()]
    inputs = options.batch * 3 * 224 * 224 * 4 + options.batch * 8
    # Parameters, gradients, optimizer state, buffers and inputs: what no schedule can do without.
    result["fixed_bytes"] = inputs + sum(
        t.numel() * t.element_size()
        for t in (*parameters.values(), *(p.grad for p in parameters.values()), *state,
                  *model.buffers())
    )  # fmt: skip
    return result


def main():
    """Parse the command line, train, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    result = train(options)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
