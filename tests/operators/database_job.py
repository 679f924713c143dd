"""Run PyTorch's operator database with Tidepool evicting at every allocation; compare every bit.

Usage: database_job.py --shard I/N --samples K --dtypes float32,... --out FILE [--only NAME,...]

Each sample runs twice plainly (does the operator equal itself?) and once intercepted, forward and,
where it has one, backward; inputs are first passed through an operator so that they are evictable.
Writes JSON: counts, operators that differ from themselves, and what is wrong by operator.
"""

import argparse
import itertools
import json
import sys
import warnings

import torch
import torch.utils._pytree as pytree

import tidepool

warnings.filterwarnings("ignore")
BUDGET = "8GiB"
# Their results are memory that nobody has written.
UNINITIALISED = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided",
                 "empty_permuted"}  # fmt: skip


def bits(tensor):
    """Return the logical elements of a tensor as bytes."""
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    plain = tensor.detach().resolve_conj().resolve_neg().reshape(-1).clone()
    return plain.as_strided((plain.numel(),), (1,)).view(torch.uint8)


def same(left, right):
    """Tell whether two trees of results are equal bit for bit."""
    left, right = pytree.tree_leaves(left), pytree.tree_leaves(right)
    if len(left) != len(right):
        return False
    for one, other in zip(left, right):
        if not torch.is_tensor(one):
            continue
        if one.shape != other.shape or one.dtype != other.dtype or one.layout != other.layout:
            return False
        if one.numel() and one.device.type == "cpu" and not torch.equal(bits(one), bits(other)):
            return False
    return True


def call(operator, sample):
    """Run forward and backward once, from a fixed seed; return results and gradients."""
    torch.manual_seed(7)
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    wanted = [x for x in leaves if torch.is_tensor(x) and x.requires_grad]

    def pass_through(x):
        plain = torch.is_tensor(x) and x.layout == torch.strided and x.is_floating_point()
        return x * 1 if plain and not isinstance(x, torch.nn.Parameter) else x

    inputs, args, kwargs = pytree.tree_map(pass_through, (sample.input, sample.args, sample.kwargs))
    result = operator(inputs, *args, **kwargs)
    differentiable = [x for x in pytree.tree_leaves(result)
                      if torch.is_tensor(x) and x.requires_grad and x.numel()]  # fmt: skip
    if not wanted or not differentiable or differentiable[0].layout != torch.strided:
        return result, None
    sums = [x.abs().sum() if x.is_complex() else x.sum() for x in differentiable]
    return result, torch.autograd.grad(sums, wanted, allow_unused=True)


def check(operator, sample, plugin, report):
    """Run one sample plainly, plainly again, and intercepted."""
    try:
        reference, again = call(operator, sample), call(operator, sample)
    except Exception:  # not for this machine
        report["not_here"].append(operator.name)
        return
    if not same(reference, again):
        report["unequal_to_itself"].append(operator.name)
        return
    report["samples"] += 1
    plugin.thread(1)
    try:
        result = call(operator, sample)
        wrong = None if same(reference, result) else "bits differ"
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    finally:
        plugin.thread(0)
    if wrong:
        report["wrong"].setdefault(operator.name, []).append(wrong)


def samples_of(operator, dtype, count):
    """Return the first samples of an operator, made plainly."""
    torch.manual_seed(1)
    gradients = operator.supports_autograd and dtype.is_floating_point
    try:
        return list(itertools.islice(
            operator.sample_inputs("cpu", dtype, requires_grad=gradients), count))  # fmt: skip
    except Exception:
        return []


def run(options):
    """Go through this shard's operators."""
    tidepool.enable(budget=BUDGET, chaos="alloc", device="cpu")
    from tidepool import _job

    plugin = _job.current().plugin
    plugin.thread(0)
    torch.set_num_threads(1)
    from torch.testing._internal.common_methods_invocations import op_db

    shard, shards = map(int, options.shard.split("/"))
    only = set(options.only.split(",")) if options.only else None
    report = {"operators": 0, "samples": 0, "not_here": [], "unequal_to_itself": [], "wrong": {}}
    for number, operator in enumerate(op_db):
        if number % shards != shard or operator.name in UNINITIALISED:
            continue
        if only is not None and operator.name not in only:
            continue
        report["operators"] += 1
        for name in options.dtypes.split(","):
            dtype = getattr(torch, name)
            if dtype not in operator.dtypes:
                continue
            print(operator.name, name, file=sys.stderr, flush=True)
            for sample in samples_of(operator, dtype, options.samples):
                check(operator, sample, plugin, report)
    report["evictions"] = tidepool.stats()["devices"]["cpu"]["evictions"]
    return report


def main():
    """Parse the command line, run, write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--only")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    report = run(options)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()
