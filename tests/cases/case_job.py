"""Run the cases of one module and write what they returned, as fingerprints.

    python case_job.py MODULE OUT.json [--only NAME]

A case is a function whose name starts with `case_`; what it returns (tensors, numbers, strings,
nested in lists and tuples) must not depend on Tidepool. With Tidepool attached, the replays that
each case caused are counted, too.
"""

import argparse
import hashlib
import importlib
import json
import traceback
import warnings

import torch


def fingerprint(value) -> str:
    """Return the hash of a result's type, shape and logical elements."""
    if isinstance(value, torch.Tensor) and value.is_nested:
        return "nested " + fingerprint(list(value.detach().unbind()))
    if isinstance(value, torch.Tensor):
        text = f"{value.dtype} {tuple(value.shape)} {value.layout} {value.requires_grad}"
        if value.layout in (torch.sparse_coo, torch.sparse_csr, torch._mkldnn):
            value = value.to_dense()
        if value.is_quantized:
            value = value.int_repr()
        flat = value.detach().resolve_conj().resolve_neg().contiguous().clone().reshape(-1)
        content = bytes(flat.view(torch.uint8).tolist()) if flat.numel() > 0 else b""
        return f"{text} {hashlib.sha256(content).hexdigest()[:16]}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(fingerprint(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {fingerprint(v)}" for k, v in value.items()) + "}"
    return repr(value)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("out")
    parser.add_argument("--only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for function in (torch.exp, torch.log, torch.sin, torch.sqrt, torch.tanh):
        function(torch.ones(1))  # as attaching does: first calls in two threads can go wrong
    import tidepool

    module = importlib.import_module(options.module)
    results = {}
    for name, function in list(vars(module).items()):
        if not name.startswith("case_") or options.only not in (None, name):
            continue
        before = replays(tidepool)
        torch.manual_seed(7)
        try:
            text = fingerprint(function())
        except Exception as error:
            text = f"raised {type(error).__name__}"
            traceback.print_exc()
        results[name] = {"result": text, "replays": replays(tidepool) - before}
    results["contents_different"] = tidepool.stats()["devices"].get("cpu", {}).get(
        "contents_different")
    with open(options.out, "w", encoding="utf-8") as out:
        json.dump(results, out)


def replays(tidepool) -> int:
    """Return the replays so far; 0 without Tidepool."""
    stats = tidepool.stats()
    return stats["devices"]["cpu"]["rematerializations"] if stats and stats.get("devices") else 0


if __name__ == "__main__":
    main()
