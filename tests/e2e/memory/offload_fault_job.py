"""Trains under a tier of which something goes wrong after the first step.

    python offload_fault_job.py FOLDER FAULT

FOLDER is where the tier has its file; FAULT is none, full, truncated, changed or signals. Prints a
digest of losses and parameters for each step.
"""

import os
import resource
import signal
import sys
from pathlib import Path

import torch
from offload_job import digest, make_model, train


def tier_file(folder: Path) -> int:
    """Return the descriptor of the file without a name."""
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target.startswith(str(folder)) and target.endswith("(deleted)"):
            return int(number)
    raise AssertionError(f"no file without a name in {folder}")


def full(folder: Path) -> None:
    size = os.fstat(tier_file(folder)).st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))


def truncated(folder: Path) -> None:
    os.ftruncate(tier_file(folder), 0)


def changed(folder: Path) -> None:
    size = os.fstat(tier_file(folder)).st_size
    with open(f"/proc/self/fd/{tier_file(folder)}", "r+b", buffering=0) as opened:
        for offset in range(0, size, 65536):
            opened.seek(offset)
            opened.write(b"changed")


def signals(_folder: Path) -> None:
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)


def none(_folder: Path) -> None:
    pass


def main() -> None:
    torch.set_num_threads(1)
    folder, fault = Path(sys.argv[1]), globals()[sys.argv[2]]
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        losses = train(model, optimizer, steps=1)
        print(losses, digest(*model.parameters()), flush=True)
        fault(folder)
    signal.setitimer(signal.ITIMER_REAL, 0)  # the interpreter's end has no handlers any more


if __name__ == "__main__":
    main()
