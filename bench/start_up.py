"""What Tidepool adds to the start of a process: `import torch`, which attaches, and its end.

Processes with and without it in turns, on one thread each. Times are of their processors, not of
the clock on the wall.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import measure
from environments import clean_environment

JOB = [sys.executable, "-c", "import torch"]
COMMANDS = {
    "a process that imports torch": JOB,
    "tidepool run": [sys.executable, "-m", "tidepool", "run", "--device", "cpu", "--budget", "1GiB",
                     "--", *JOB],
}


def processor_ms(command: list[str]) -> float:
    """Run a command, and return the milliseconds that its processes computed."""
    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (usage.ru_utime + usage.ru_stime) * 1e3

    before = used()
    environ = clean_environment(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", TIDEPOOL_QUIET="1")
    subprocess.run(command, check=True, env=measure.with_package(environ))
    return used() - before


def main() -> None:
    parser = measure.options(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parsed = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for k in range(1 if parsed.smoke else parsed.rounds):
        for name in tuple(COMMANDS)[::1 if k % 2 else -1]:
            times[name].append(processor_ms(COMMANDS[name]))
    plain, ours = COMMANDS
    measure.report(parsed, [measure.summarize(plain, "ms", times[plain]),
                            measure.added(f"+ {ours}", "ms", times[plain], times[ours])])


if __name__ == "__main__":
    main()
