"""What one allocation and free cost through PyTorch's CUDA allocator class, in nanoseconds.

raw_alloc and raw_delete of PyTorch's own allocator and of Tidepool's, in one process, in turns, on
the stand-in CUDA device: times of the host, in which the device has no part. Rows are per size of
the pair, blocks alive and threads: what PyTorch's own costs (with its usual segments, and with
expandable ones), what Tidepool's costs beside it, and their ratio: of the two minima, and batch by
batch.
"""

from __future__ import annotations

import cuda_program
import measure

RATIO_GOAL = 0.5  # of the two minima, one thread
BATCHES, PAIRS = 15, 5000


def cases(setting: str, batches: int, pairs: int) -> list[dict]:
    return cuda_program.run("cuda_pairs", setting, str(batches), str(pairs), memory="8GiB")


def counts(smoke: bool) -> tuple[int, int]:
    """Return how many batches are measured, and how many pairs each has."""
    return (2, 50) if smoke else (BATCHES, PAIRS)


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
    found = []
    for name, setting in cuda_program.SETTINGS.items():
        found += results(name, cases(setting, *counts(parsed.smoke)))
    measure.report(parsed, found)


if __name__ == "__main__":
    main()
