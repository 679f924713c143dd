"""Jobs larger than any machine here, with a second tier, in simulation: projections, not results.

Usage: python bench/tier_projections.py [--parts llama,batches] [--smoke] [--markdown FILE]

`llama`: full fine-tuning of the shapes of Llama 3.1 8B and of a model with 32 billion parameters,
with 80 GiB and links of 55 and 450 GB/s: the time of a step as a multiple of what its operators
take with all the memory that they want, without a plan and with the one that a job finds, and both
with an optimizer that does one thing to all parameters after the other (`foreach`) and with one
that has done with a parameter before it reads the next (`loop`, or fused). `batches`: the largest
batches of ResNet-50 and ResNet-101 with 16 GiB, without a budget's help, by recomputing, and with a
link of 12 GB/s, whose step takes no longer than MOST_OVERHEAD times its operators; without plans.
Shapes and costs: bench/shape_recorder.py. Transfers run beside operators.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import measure
import policy_bench
import run

JOB = measure.ROOT / "bench" / "jobs" / "large_shapes.py"
LLAMAS = [(size, (*half, *loop)) for size in ("8b", "32b") for half in ((), ("--half",))
          for loop in ((), ("--loop",))]
# A plan is in use from the fifth iteration on, and copies ahead settle within two more; without one
# they do from the second on.
PLANNED = ("--policy", "default", "--iterations", "8", "--search", "100")
UNPLANNED = ("--policy", "planned", "--iterations", "4", "--search", "0")
SEQUENCES, LLAMA_BUDGET, LLAMA_LINKS, ROOM = 8, "80GiB", (55, 450), "4TiB"
RESNETS, RESNET_BUDGET, RESNET_LINK = ("50", "101"), "16GiB", 12
DELTA = {"50": 2.04, "101": 2.25}  # times the batch without help, as published
MOST_OVERHEAD = 5  # beyond which tidepool-replay says that a job has failed
GIB = 1 << 30


def record(folder: Path, kind: str, size: str, *options: object) -> Path:
    """Record a job's shapes; return its trace."""
    path = folder / f"{kind}_{size}_{'_'.join(map(str, options))}.jsonl.gz"
    if not path.exists():
        subprocess.run([sys.executable, "-W", "ignore", str(JOB), kind, size, str(path),
                        *map(str, options)], check=True)
    return path


def replay(trace: Path, budget: str, *options: str) -> dict:
    """Return what tidepool-replay says of the last iteration, the second unless options say so."""
    return policy_bench.ask(trace, "--budget", budget, "--iterations", "2", *options)


def time_of(found: dict) -> str:
    """Return what a step takes as a multiple of its operators' time, or why it does not run."""
    return f"{found['overhead']:.3f}" if found["status"] == "ok" else found["status"]


def tier(link: float) -> list[str]:
    return ["--tier", f"{ROOM}@{link:g}", "--beside", "yes"]


def fixed_bytes(trace: Path) -> int:
    """Return what the trace has from the start, and all the time."""
    kinds = ("parameter", "gradient", "optimizer_state", "buffer")
    with gzip.open(trace, "rt") as file:
        lines = [json.loads(line) for line in file]
    return sum(line["bytes"] for line in lines if line.get("kind") in kinds)


def llamas(folder: Path, smoke: bool) -> list[str]:
    """Return the table of full fine-tuning."""
    lines = ["## Full fine-tuning with 80 GiB", "",
             f"{SEQUENCES} sequences of 2048 tokens, AdamW; `fixed`: parameters, gradients and the "
             "optimizer's state, in float32 with products in bfloat16, or all in bfloat16. `out` "
             "and `in`: what a step with a plan copies; `waited`: for how long its operators wait "
             "for that.",
             "", "| model | optimizer | fixed, GiB | operators, s | GB/s | time / operators' | "
             "with a plan | out, GiB | in, GiB | waited, s | replays |",
             "| --- | --- " + "| ---: " * 9 + "|"]
    for size, options in LLAMAS[1:2] if smoke else LLAMAS:
        trace = record(folder, "llama", size, "--sequences", SEQUENCES, *options)
        name = f"{size.upper()}, {'bfloat16' if '--half' in options else 'float32'}"
        optimizer = "loop" if "--loop" in options else "foreach"
        for link in LLAMA_LINKS[-1:] if smoke else LLAMA_LINKS:
            online = replay(trace, LLAMA_BUDGET, *tier(link), *UNPLANNED)
            found = replay(trace, LLAMA_BUDGET, *tier(link), *PLANNED)
            front = (f"| {name} | {optimizer} | {fixed_bytes(trace) / GIB:.0f} | "
                     f"{found['baseline_ns'] / 1e9:.2f} | {link} | {time_of(online)} | "
                     f"{time_of(found)} |")
            if found["status"] != "ok":
                lines.append(front + " |" * 4)
                continue
            lines.append(f"{front} {found['stored_bytes'] / GIB:.0f} | "
                         f"{found['loaded_bytes'] / GIB:.0f} | {found['exposed_ns'] / 1e9:.2f} | "
                         f"{found['operators_replayed']} |")
    return lines


def largest(runs: Callable[[int], bool], first: int, step: int) -> int:
    """Return the largest multiple of `step` that runs, of which a smaller one does."""
    low, high = 0, first
    while runs(high):
        low, high = high, 2 * high
    while high - low > step:
        middle = (low + high) // 2 // step * step
        if runs(middle):
            low = middle
        else:
            high = middle
    return low


def batches(folder: Path, smoke: bool) -> list[str]:
    """Return the table of largest batches."""
    lines = ["## The largest batches with 16 GiB", "",
             "Images of 224 x 224, float32, AdamW; to within 4 images. `time`: of a step at that "
             f"batch, as a multiple of its operators'; a job that takes {MOST_OVERHEAD} times as "
             "long counts as failed. DELTA's figures are its paper's, on a GPU with 16 GB.", "",
             "| network | plain | recomputing | / plain | time | with 12 GB/s | / plain | time | "
             "DELTA / plain |", "| --- " + "| ---: " * 8 + "|"]
    for size in RESNETS[:1] if smoke else RESNETS:
        def overhead(batch: int, *options: str, size: str = size) -> float | None:
            trace = record(folder, "resnet", size, "--batch", batch)
            found = replay(trace, RESNET_BUDGET, *options)
            return found["overhead"] if found["status"] == "ok" else None

        def plain(batch: int) -> bool:  # nothing has to leave
            return overhead(batch) == 1

        step = 64 if smoke else 4
        alone = largest(plain, 128, step)
        row = f"| ResNet-{size} | {alone} |"
        for options in ((), tier(RESNET_LINK)):
            most = largest(lambda batch, o=options: overhead(batch, *o) is not None, alone, step)
            row += f" {most} | {most / alone:.2f} | {overhead(most, *options):.2f} |"
        lines.append(f"{row} {DELTA[size]:.2f} |")
    return lines


PARTS = {"llama": llamas, "batches": batches}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--smoke", action="store_true", help="one model, one link")
    parser.add_argument("--markdown", type=Path, help="where the tables go")
    options = parser.parse_args(arguments)
    given = sys.argv[1:] if arguments is None else arguments
    command = " ".join(["python bench/tier_projections.py", *given])
    text = ["# Projections with a second tier", "",
            f"`{command}`, commit {run.commit()}. In simulation, of shapes "
            "with costs by a model of a GPU between an A100 and an H100 "
            "(`bench/shape_recorder.py`): a projection. No GPU has run this.", ""]
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts:
            text += [*PARTS[part](Path(folder), options.smoke), ""]
    print("\n".join(text))
    if options.markdown:
        options.markdown.write_text("\n".join(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
