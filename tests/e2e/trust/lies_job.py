"""Calls operators that lie, and prints what became of each as JSON.

    python lies_job.py check          what a check finds of them, in a process without Tidepool
    python lies_job.py run NAME...    digests of what they give, or the errors that end them

A check that is `blind` knows nothing of the Python functions, as if the operators were in C++.
"""

import hashlib
import json
import sys

import lying_operators
import torch

STEPS = 4


def steps_of(name: str) -> list[torch.Tensor]:
    """Return what an operator gives, what it was given, and what was computed from these."""
    operator = getattr(torch.ops.lying, name)
    results = []
    torch.manual_seed(0)
    for _ in range(STEPS):
        operand = torch.randn(64, 16).tanh()
        before = operand * 3
        result = operator(operand)
        lying_operators.new_step()
        results += [operand, before, result, result.tanh()]
    return results


def check(blind: bool) -> dict[str, str]:
    """Return why each operator is kept; "" for those that are trusted."""
    from tidepool.job import _plugin
    from tidepool.trust import _operator_check
    from tidepool.verify import _fingerprint

    checked = _operator_check.OperatorCheck(torch, _fingerprint.Fingerprints(torch),
                                            _plugin.load().kernel_library)
    checked._known -= {f"lying::{name}" for name in lying_operators.LIES}
    if not blind:
        checked._sources._kernels = {f"lying::{name}": [function]
                                     for name, function in lying_operators.LIES.items()}
    torch.set_float32_matmul_precision("highest")  # as before one of them has changed it
    checked.start()
    for name in lying_operators.LIES:
        steps_of(name)
    return {name.partition("::")[2]: each.reason for name, each in checked.finish().items()}


def run(names: list[str]) -> dict[str, str]:
    """Return a digest of what each operator's job computes, or the error that ends it."""
    found = {}
    for name in names:
        digest = hashlib.sha256()
        try:
            for tensor in steps_of(name):
                digest.update(tensor.clone().numpy().tobytes())
            found[name] = digest.hexdigest()
        except RuntimeError as error:
            found[name] = f"error: {str(error).splitlines()[0]}"
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, *names = sys.argv[1:]
    print(json.dumps({"seeing": check(False), "blind": check(True)} if what == "check"
                     else run(names), indent=1))
