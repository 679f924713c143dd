"""A whole network with everything evicted, and under a budget: a part of bench/gpu_check.py.

    python pressure.py [--pressure chaos,0.5,offload,host] [--smoke] NETWORK [OPTIONS of
        train_job.py]

For each pressure the job runs plain, twice from the same start, and with Tidepool: small networks
with everything evicted after every operator (chaos), or evicted or copied to the host's memory at
random (offload); those with a gigabyte of activations with that share of what is not fixed, or with
two fifths of all memory and the host's beside it (host), where that is not out of memory. A plain
job that varies is run with PyTorch's deterministic algorithms, too. Exit status 1 if bits differ
where the plain job equals itself, or the budget was passed.
"""

from __future__ import annotations

import argparse
import sys

import bits
import parts

MODES = {"chaos": "op", "offload": "offload:1"}  # of chaos
HOST, HOST_SHARE, HOST_MEMORY = "host", 0.4, "host:8GiB"
PRESSURES = ("chaos", "0.5", "offload", HOST)


def sizes(pressure: str, smoke: bool) -> list[str]:
    if pressure in MODES:
        return ["--size", "chaos", "--steps", "3"]
    return ["--size", "budget", "--steps", "2"] if smoke else ["--size", "medium", "--steps", "4"]


def compare(network: str, title: str, pressure: str, options: list[str]) -> tuple[bool, bool]:
    """Run a network plain and under pressure; return whether it equals itself, and is as it should.
    """
    plain = bits.run(network, [*options, "--twice"])
    expected = bits.contents(plain["steps"])
    itself = bits.contents(plain["again"]) == expected
    chaos = MODES.get(pressure)
    offload = HOST_MEMORY if pressure in ("offload", HOST) else None
    if chaos:
        budget = None
    elif pressure == HOST:
        budget = int(HOST_SHARE * plain["allocated_peak"])
    else:
        budget = bits.budget_of(plain, float(pressure))
    try:
        ours = bits.run(network, options, budget or "100%", chaos, offload)
    except bits.OutOfMemory:
        if pressure != HOST:
            raise
        parts.tell(f"{title}: out of memory", True)
        return True, True
    said = ours["tidepool"]
    same = bits.contents(ours["steps"]) == expected
    kept = budget is None or said["reserved_peak_bytes"] <= budget
    restored = not said.get("contents_different")
    parts.tell(f"{title}: the plain job equals itself", itself)
    parts.tell(f"{title}: the same bits", same)
    if chaos:
        parts.tell(f"{title}: contents compared", said.get("contents_compared", 0))
        parts.tell(f"{title}: contents restored otherwise", ", ".join(
            f"{name} ({count})" for name, count in said.get("contents_different", {}).items())
            or "none")
    else:
        parts.tell(f"{title}: the budget was kept", kept)
        parts.tell(f"{title}: budget, MiB", budget / bits.MIB)
        parts.tell(f"{title}: plain peak allocated, MiB", plain["allocated_peak"] / bits.MIB)
        parts.tell(f"{title}: plain peak reserved, MiB", plain["reserved_peak"] / bits.MIB)
        parts.tell(f"{title}: time of the last step / plain",
                   ours["steps"][-1]["ms"] / plain["steps"][-1]["ms"])
    for key in ("evictions", "operators_replayed", "windows", "remaps", "offloaded_bytes"):
        parts.tell(f"{title}: {key}", said.get(key, 0))
    return itself, (same or not itself) and kept and (restored or not itself)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--pressure", default=",".join(PRESSURES),
                        help="chaos, offload, host, or shares, by commas")
    parser.add_argument("--smoke", action="store_true", help="small")
    parser.add_argument("network")
    options, more = parser.parse_known_args()
    good = True
    for pressure in options.pressure.split(","):
        title = pressure if pressure in (*MODES, HOST) else f"r = {pressure}"
        given = [*more, *sizes(pressure, options.smoke)]
        itself, right = compare(options.network, title, pressure, given)
        good &= right
        if not itself and "--deterministic" not in more:
            _, right = compare(options.network, f"{title}, deterministic", pressure,
                               [*given, "--deterministic"])
            good &= right
    if not good:
        print("bits differ, or the budget was passed: see the facts", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
