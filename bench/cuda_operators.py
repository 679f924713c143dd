"""What Tidepool adds to single operators on tiny tensors on the stand-in CUDA device.

Processes in turns: one with PyTorch's own allocator and without Tidepool (`stock`), one attached,
in which rounds without interception (`off`), and with it (`recorded`) take turns, too. Reported are
the differences of `recorded` to `off` (what seeing and recording cost), and of `recorded` to
`stock`, turn by turn (all that Tidepool costs); then what addresses cost in a loop of Python.
The stand-in device's own work is in all of them. Times are of the host's thread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict

import measure

GOAL = 500.0  # ns at most, minimum
WAYS = ("stock", "attached")


def inside(way: str, rounds: int, count: int) -> dict:
    """Return this process's nanoseconds by case and configuration, and its addresses' cost."""
    import operator_overhead
    import torch

    torch.set_num_threads(1)
    torch.cuda.init()
    plugin = measure.attach("256MiB", "cuda") if way == "attached" else None
    loops = operator_overhead.load_loops()
    found: dict[str, dict[str, list[float]]] = {}
    for which in range(loops.operator_overhead_prepare(1)):
        name = loops.operator_overhead_name(which).decode()
        if plugin is None:
            found[name] = {"stock": [loops.operator_overhead_run(which, count)
                                     for _ in range(rounds)]}
        else:
            configurations = operator_overhead.Configurations(plugin, loops, "cuda")
            found[name] = operator_overhead.run_rounds(configurations, which, rounds, count)
    addresses = [] if plugin is None else operator_overhead.address_results("cuda", rounds, count)
    return {"cases": found, "addresses": [asdict(each) for each in addresses]}


def turn(way: str, rounds: int, count: int) -> dict:
    """Run a process of a way on the stand-in device, and return what it found."""
    import cuda_program
    import standin
    import torch
    from environments import clean_environment

    environ = standin.environment(version=torch.__version__, base=clean_environment(),
                                  build=cuda_program.stand_in_build(), memory="8GiB", touch=False)
    done = subprocess.run([sys.executable, __file__, "--inside", way, "--rounds", str(rounds),
                           "--count", str(count)], text=True, check=True, stdout=subprocess.PIPE,
                          env=measure.with_package({**environ, "OMP_NUM_THREADS": "1"}))
    return json.loads(done.stdout.splitlines()[-1])


def results(turns: int, rounds: int, count: int) -> list[measure.Result]:
    """Return what operators and addresses cost; a turn's figure is the median of its rounds."""
    found: dict[str, list[dict]] = {way: [] for way in WAYS}
    for k in range(turns):
        for way in WAYS[::1 if k % 2 == 0 else -1]:
            found[way].append(turn(way, rounds, count))
    made = []
    for name in found["stock"][0]["cases"]:
        times = {configuration: [statistics.median(each["cases"][name][configuration])
                                 for each in found[way]]
                 for way, configuration in (("stock", "stock"), ("attached", "off"),
                                            ("attached", "recorded"))}
        made += [measure.summarize(f"{name} stock", "ns", times["stock"]),
                 measure.added(f"{name} + recorded", "ns", times["off"], times["recorded"]),
                 measure.added(f"{name} + all", "ns", times["stock"], times["recorded"], GOAL)]
    for case in zip(*(each["addresses"] for each in found["attached"]), strict=True):
        medians = [each["median"] for each in case]
        made.append(measure.summarize(case[0]["name"], "ns", medians, case[0]["goal"]))
    return made


def main() -> None:
    parser = measure.options(__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5, help="processes of each way")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--count", type=int, default=1000, help="calls in a round")
    parser.add_argument("--inside", choices=WAYS, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.inside:
        print(json.dumps(inside(parsed.inside, parsed.rounds, parsed.count)), flush=True)
        os._exit(0)  # the device's threads need not end in order
    sizes = (1, 3, 50) if parsed.smoke else (parsed.turns, parsed.rounds, parsed.count)
    measure.report(parsed, results(*sizes))


if __name__ == "__main__":
    main()
