"""Train a ResNet-50 without a budget and at half of its activations; compare every bit.

The main job of the project, as a user would run it: `./dev demo`. Runs the same script three
times: plain PyTorch; under `tidepool run` with an ample budget, to measure the peak; and with the
budget fixed + r * (peak - fixed), r = 0.5. Exits with 1 if a bit differs, the budget was exceeded,
or nothing was evicted.

`./dev demo --offload FOLDER` trains with AdamW under a budget of half of what parameters,
gradients and the optimizer's state take, and 64 MiB; the rest goes to a file in the folder.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

JOB = pathlib.Path(__file__).parent / "jobs" / "resnet50.py"
AMPLE = "1TiB"
MIB = 1 << 20
COMPARED = ("losses", "gradients", "parameters", "buffers")


def run(folder, name, options, budget=None):
    """Run the job; return (its result, statistics of the CPU or None)."""
    out, stats = folder / f"{name}.json", folder / f"{name}.stats.json"
    job = [sys.executable, str(JOB), "--out", str(out), "--batch", str(options.batch),
           "--steps", str(options.steps), "--threads", str(options.threads),
           "--optimizer", "adamw" if options.offload else "sgd"]  # fmt: skip
    offload = ["--offload", f"file:{options.offload}:64GiB"] if options.offload else []
    if budget is not None:
        job = [sys.executable, "-m", "tidepool", "run", "--budget", str(budget), "--device", "cpu",
               "--stats", str(stats), *offload, "--", *job]  # fmt: skip
    print(f"\n== {name}" + (f", budget {budget}" if budget else ""), flush=True)
    subprocess.run(job, check=True)
    result = json.loads(out.read_text())
    return result, json.loads(stats.read_text())["devices"]["cpu"] if budget else None


def report(plain, squeezed, stats, budget):
    """Print what a user wants to know; return the list of what is wrong."""
    wrong = [f"{what} differ" for what in COMPARED if plain[what] != squeezed[what]]
    if stats["reserved_peak_bytes"] > budget:
        wrong.append(f"reserved {stats['reserved_peak_bytes']} bytes of {budget}")
    if stats["evictions"] == 0:
        wrong.append("nothing was evicted")
    same = [what for what in COMPARED if plain[what] == squeezed[what]]
    print(f"\nsame bits:        {', '.join(same) or 'none'}")
    print(f"budget:           {budget / MIB:.1f} MiB")
    print(f"reserved peak:    {stats['reserved_peak_bytes'] / MIB:.1f} MiB")
    print(f"evictions:        {stats['evictions']} ({stats['evicted_bytes'] / MIB:.0f} MiB)")
    print(f"replays:          {stats['operators_replayed']}")
    if stats["offloads"]:
        print(f"offloaded:        {stats['offloaded_bytes'] / MIB:.0f} MiB, of which "
              f"{stats['copied_bytes'] / MIB:.0f} MiB were written; fetched "
              f"{stats['fetched_bytes'] / MIB:.0f} MiB")
    slower = sum(squeezed["seconds"]) / sum(plain["seconds"])
    print(f"plain PyTorch:    {sum(plain['seconds']):.2f} s")
    print(f"under the budget: {sum(squeezed['seconds']):.2f} s ({slower:.2f}x)")
    return wrong


def main():
    """Run the three jobs and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, help="20, or 4 with --offload")
    parser.add_argument("--offload", metavar="FOLDER", help="on a local disk")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--r", type=float, default=0.5)
    options = parser.parse_args()
    options.batch = options.batch or (4 if options.offload else 20)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        plain, _ = run(folder, "plain PyTorch", options)
        ample, measured = run(folder, "with Tidepool", options, AMPLE)
        fixed = plain["fixed_bytes"]
        peak = measured["allocated_peak_bytes"]
        budget = int(fixed + options.r * (peak - fixed))
        if options.offload:
            budget = fixed // 2 + 64 * MIB
        print(f"\npeak {peak / MIB:.0f} MiB: parameters, gradients, optimizer state and inputs "
              f"{fixed / MIB:.0f} MiB, activations and workspaces {(peak - fixed) / MIB:.0f} MiB")
        squeezed, stats = run(folder, "with Tidepool, squeezed", options, budget)
        wrong = [f"with an ample budget {w} differ" for w in COMPARED if plain[w] != ample[w]]
        wrong += report(plain, squeezed, stats, budget)
    for what in wrong:
        print(f"WRONG: {what}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
