"""What one allocation and free cost through PyTorch's CUDA allocator class, in nanoseconds.

raw_alloc and raw_delete of PyTorch's own allocator and of Tidepool's, in one process, in turns, on
the stand-in CUDA device: times of the host, in which the device has no part. Rows are per size of
the pair, blocks alive and threads: what PyTorch's own costs (with its usual segments, and with
expandable ones), what Tidepool's costs beside it, and their ratio: of the two minima, and batch by
batch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import measure
import torch

sys.path.insert(0, str(measure.ROOT / "tests" / "support"))

import standin  # noqa: E402

RATIO_GOAL = 0.5  # of the two minima, one thread
ALLOCATORS = {"native": "", "expandable": "expandable_segments:True"}
BATCHES, PAIRS = 15, 5000


def version() -> str:
    return "_".join(torch.__version__.split(".")[:2])


def stand_in_folder():
    """Return the build whose tests brought the stand-in device: a release has none."""
    folders = [measure.build_folder(), *(measure.ROOT / "build").glob("*")]
    found = next((each for each in folders if (each / "fake_cuda").is_dir()), None)
    if found is None:
        sys.exit("the stand-in CUDA device is not built: run ./dev build")
    return found


def cases(setting: str, batches: int, pairs: int) -> list[dict]:
    """Run the C++ program on the stand-in device; return what it measured."""
    build = measure.build_folder()
    base = {name: value for name, value in os.environ.items()
            if not name.startswith(("TIDEPOOL_", "PYTORCH_", "LD_PRELOAD"))}
    if setting:
        base["PYTORCH_CUDA_ALLOC_CONF"] = setting
    environ = standin.environment(version=torch.__version__, base=base, build=stand_in_folder(),
                                  memory="8GiB")
    plugin = build / "lib" / f"libtidepool_torch_cuda_{version()}.so"
    program = build / "bench" / f"cuda_pairs_torch_{version()}"
    done = subprocess.run([str(program), str(plugin), str(batches), str(pairs)], env=environ,
                          text=True, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB" if count >= 1024 \
        else f"{count} B"


def results(name: str, found: list[dict]) -> list[measure.Result]:
    made = []
    for case in found:
        label = f"{name}, {size(case['bytes'])}, {case['live']} live"
        if case["threads"] > 1:
            label += f", {case['threads']} threads"
        ratios = [ours / theirs for ours, theirs in zip(case["ours"], case["native"],
                                                        strict=True)]
        goal = RATIO_GOAL if name == "native" and case["threads"] == 1 else None
        made += [measure.summarize(label, "ns", case["native"]),
                 measure.summarize(f"  tidepool beside it ({label})", "ns", case["ours"]),
                 measure.summarize(f"  ratio ({label})", "", ratios, goal,
                                   minimum=min(case["ours"]) / min(case["native"]))]
    return made


def main() -> None:
    parsed = measure.options(__doc__.splitlines()[0]).parse_args()
    batches, pairs = (2, 50) if parsed.smoke else (BATCHES, PAIRS)
    found = []
    for name, setting in ALLOCATORS.items():
        found += results(name, cases(setting, batches, pairs))
    measure.report(parsed, found)


if __name__ == "__main__":
    main()
