"""Patterns of requests and whole jobs through PyTorch's CUDA allocator class.

PyTorch's own allocator, with its usual segments and with expandable ones, and Tidepool's, on the
stand-in CUDA device. Rows are, for each pattern of bench/allocator/patterns.h, the time of a
request and its free, the bytes held from the device per byte alive at most, and how many requests
were refused; and for each job the smallest device on which it completes, per byte alive at most.
Tidepool is measured beside each of the two, and its rows of space are equal.
"""

from __future__ import annotations

import cuda_program
import measure

RUNS = 15


def results(native: str, found: list[dict]) -> list[measure.Result]:
    """Return the rows of one process; `native` is what PyTorch's own allocator is called in it."""
    made = []
    for row in found:
        which = native if row["allocator"] == "native" else f"tidepool beside {native}"
        label = f"{row['name']}, {which}"
        if row["kind"] == "replay":
            made.append(measure.summarize(f"{label}: smallest device", "", [row["reserved"]]))
            continue
        made += [measure.summarize(label, "ns", row["ns"]),
                 measure.summarize(f"{label}: reserved", "", [row["reserved"]]),
                 measure.summarize(f"{label}: refused", "", [row["refused"]])]
    return made


def main() -> None:
    parser = measure.options(__doc__.splitlines()[0])
    parser.add_argument("--trace", action="append", default=[], metavar="LOG",
                        help="replay this log too (docs/benchmarks.md)")
    parsed = parser.parse_args()
    found = []
    for name, setting in cuda_program.SETTINGS.items():
        rows = cuda_program.run("cuda_patterns", setting, str(2 if parsed.smoke else RUNS),
                                *parsed.trace, memory="80GiB", touch=False)
        found += results(name, rows)
    measure.report(parsed, found)


if __name__ == "__main__":
    main()
