"""What an allocation or an operator costs on a CUDA device: a part of bench/gpu_check.py.

    python costs.py pairs native|expandable [--smoke]
    python costs.py operators [--smoke]

Times are of the host's thread. Those of operators are of their calls, not of the device's work.
"""

from __future__ import annotations

import argparse

import parts  # isort: skip  it says where the next ones are
import cuda_pairs
import cuda_program
from environments import clean_environment


def pairs(setting: str, smoke: bool) -> None:
    """Compare PyTorch's allocator under a setting with Tidepool's beside it."""
    environ = clean_environment(preload=True)
    batches, count = cuda_pairs.counts(smoke)
    found = cuda_program.run_in(environ, "cuda_pairs", cuda_program.SETTINGS[setting],
                                str(batches), str(count))
    for each in cuda_pairs.results(setting, found):
        parts.result(each)


def operators(smoke: bool) -> None:
    """Say what is added to an operator that is seen, and to one that is recorded."""
    import operator_overhead

    for each in operator_overhead.results("cuda", *((4, 20) if smoke else (40, 500))):
        parts.result(each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("pairs", "operators"))
    parser.add_argument("setting", nargs="?", choices=cuda_program.SETTINGS, default="native")
    parser.add_argument("--smoke", action="store_true", help="for a moment only")
    options = parser.parse_args()
    if options.what == "pairs":
        pairs(options.setting, options.smoke)
    else:
        operators(options.smoke)


if __name__ == "__main__":
    main()
