"""What Tidepool must keep in models of well-known libraries, and whether they give the same bits.

Usage: python bench/kept_bytes.py [LIBRARY...] [--ways W,W...] [--out FILE] [--smoke]

The libraries have to be installed beside PyTorch; those that are not are left out. Each library's
models train a few steps (bench/jobs/train_library_models.py): as they are, with all the memory,
under a budget that has room for some share of the activations (six tenths; a way r=0.4 is another),
and under chaos. The table says for each model how much of its activations can be evicted, and for
what reason the rest is kept. Where such a budget is too small for what an operator needs at once,
the model trains again under the one that the error says to try, and the table has the share that
this leaves; that a request was refused while more than twice its size was not pinned is a fault of
ours.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import measure
import run
from environments import clean_environment

JOB = measure.ROOT / "bench" / "jobs" / "train_library_models.py"
# What has to be installed for each.
LIBRARIES = {"torch": "torch", "timm": "timm", "torchvision": "torchvision",
             "transformers": "transformers", "diffusers": "diffusers",
             "torch_geometric": "torch_geometric", "others": "gpytorch"}
WAYS = ("ample", "r=0.6", "chaos")
NAMED_SHARE = 0.05  # reasons below it are not named
PIECE_SECONDS = 3600
MOST_UNPINNED = 2  # of what a refused request asked for
TRIES = 20  # of budgets, each the one that the error before it says to try


def prefix(way: str, budget: str) -> list[str]:
    """Return what stands before the job's command."""
    if way == "plain":
        return []
    chaos = ["--chaos=bounded"] if way == "chaos" else []
    return [sys.executable, "-m", "tidepool", "run", "--device", "cpu", "--budget", budget, *chaos,
            "--"]


def train(library: str, way: str, models: Sequence[str] = (), budget: str = "60%") -> dict:
    """Train some models of a library, or all, in one way; return what the job said by model.

    A model whose process ended without a word has an error, and the others go on without it.
    """
    environ = measure.with_package(clean_environment(preload=True)) | {"TIDEPOOL_QUIET": "1"}
    done = subprocess.run([*prefix(way, budget), sys.executable, str(JOB), library, *models],
                          env=environ, text=True, capture_output=True, timeout=PIECE_SECONDS)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {each["model"]: each for each in said}
    if done.returncode != 0:
        print(f"{library}, {way}: exit status {done.returncode}\n{done.stderr[-2000:]}",
              file=sys.stderr)
        found[""] = {"error": f"exit status {done.returncode} after {len(said)} models"}
    return found


def train_with(library: str, way: str, share: float, ample: dict[str, dict]) -> dict:
    """Train each model under a budget for a share of its activations, in a process of its own.

    Pages are as large as the budget that a process begins with allows.
    """
    found = {}
    for model, said in ample.items():
        if "error" not in said:
            found[model] = train_as_advised(library, way, model, budget_for(said, share))
    return found


def train_as_advised(library: str, way: str, model: str, budget: int) -> dict:
    """Train a model under a budget or, where that is too small, under those that errors advise."""
    for _ in range(TRIES):
        found = train(library, way, [model], str(budget))
        said = {**found.get(model, found.get("", {"error": "nothing said"})), "budget": budget}
        if too_much_unpinned(said) or (said.get("advised") or 0) <= budget:
            break
        budget = said["advised"]
    return said


def grown(said: dict, start: str, end: str) -> dict[str, float]:
    """Return by reason which share of what was allocated between two moments is kept."""
    total = said[end]["allocated"] - said[start]["allocated"]
    before, after = said[start]["roots"], said[end]["roots"]
    return {reason: max(0, after[reason] - before[reason]) / max(total, 1) for reason in after}


def budget_for(said: dict, share: float) -> int:
    """Return a budget with room for all that lasts and a share of the activations."""
    lasting = said["after"]["allocated"]  # gradients and the optimizer's state, too
    return int(lasting + share * (said["forward"]["allocated"] - said["before"]["allocated"]))


def too_much_unpinned(said: dict) -> bool:
    """Return whether a request was refused while much more than it asked for was not pinned."""
    return "asked" in said and said["unpinned"] > MOST_UNPINNED * said["asked"]


def advised(way: str, other: dict | None, ample: dict) -> str:
    """Return, in brackets, which share of the activations an advised budget has room for."""
    if not other or "budget" not in other or "error" in ample:
        return ""
    lasting, all_of_them = budget_for(ample, 0), budget_for(ample, 1)
    share = (other["budget"] - lasting) / max(all_of_them - lasting, 1)
    return f" (r={share:.2f})" if share > float(way.removeprefix("r=")) + 0.005 else ""


def same(plain: dict, other: dict | None) -> str:
    """Return whether a way gave the bits of the plain job, or why it gave none."""
    if other is None:
        return "not run"
    if too_much_unpinned(other):
        return f"**REFUSED** with {other['unpinned'] / other['asked']:.1f} times as much unpinned"
    if "error" in other:
        return "out of memory" if "out of memory" in other["error"] else other["error"][:60]
    equal = all(other[key] == plain[key] for key in ("losses", "parameters"))
    return "same" if equal else "**DIFFERENT**"


def named(shares: dict[str, float]) -> str:
    """Return the reasons above NAMED_SHARE, with their shares."""
    found = sorted(((share, reason) for reason, share in shares.items() if share > NAMED_SHARE),
                   reverse=True)
    return ", ".join(f"{reason} {share:.0%}" for share, reason in found) or "-"


class Library:
    """One library's models, trained in several ways."""

    def __init__(self, name: str, ways: Sequence[str]) -> None:
        self.name = name
        self.said = {"plain": train(name, "plain")}
        for way in ("ample", *(each for each in ways if each != "ample")):
            self.said[way] = (
                train_with(name, way, float(way.removeprefix("r=")), self.said["ample"])
                if way.startswith("r=") else train(name, way))

    def rows(self) -> Iterator[tuple[float | None, str]]:
        """Return for each model the share of activations that may go, and its row."""
        ways = [way for way in self.said if way != "plain"]
        for model, plain in self.said["plain"].items():
            if "error" in plain:
                yield None, f"| {self.name}: {model} | not trained: {plain['error'][:80]} |"
                continue
            ample = self.said["ample"].get(model, {"error": ""})
            verdicts = [same(plain, other) + advised(way, other, ample)
                        for way, other in ((way, self.said[way].get(model)) for way in ways)]
            if "error" in ample:
                yield None, f"| {self.name}: {model} | - | - | - | - | {' | '.join(verdicts)} |"
                continue
            mib = (ample["forward"]["allocated"] - ample["before"]["allocated"]) / (1 << 20)
            forward = grown(ample, "before", "forward")
            evictable = 1 - sum(forward.values())
            yield evictable, (f"| {self.name}: {model} | {mib:.1f} | {evictable:.1%} | "
                              f"{named(forward)} | {named(grown(ample, 'before', 'backward'))} | "
                              f"{' | '.join(verdicts)} |")


def text(libraries: Sequence[Library], ways: Sequence[str]) -> str:
    """Return the table."""
    rows = [row for library in libraries for row in library.rows()]
    shares = [share for share, _ in rows if share is not None]
    head = ["model", "activations, MiB", "may be evicted", "kept of them, above 5 %",
            "kept of gradients, above 5 %", *("bits, " + way for way in ways)]
    median = f"{statistics.median(shares):.1%}" if shares else "unknown"
    return "\n".join([
        "# What is kept in models of libraries", "",
        f"`python bench/kept_bytes.py`; {run.machine()['cpu']}, commit {run.commit()}.",
        "What the forward pass of the second step leaves allocated counts as activations; what is",
        "there after gradients were clipped as a list, as gradients. Reasons are those of",
        "`root_bytes` in [the statistics](../../docs/guide.md#statistics). In brackets the share",
        "that a larger budget has room for, where an error said to try it.", "",
        f"{len(shares)} models; the median share that may be evicted is {median}.", "",
        f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}",
        *(row for _, row in rows), ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is installed and write the table; return 1 where there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=", ".join(LIBRARIES))
    parser.add_argument("--ways", type=lambda given: given.split(","), default=list(WAYS))
    parser.add_argument("--out", type=Path, help="a file for the table")
    parser.add_argument("--smoke", action="store_true", help="only a network of PyTorch alone")
    options = parser.parse_args(arguments)
    wanted = [name for name in (["torch"] if options.smoke else options.libraries or LIBRARIES)
              if importlib.util.find_spec(LIBRARIES[name])]
    ways, made, said = ["ample", *(way for way in options.ways if way != "ample")], [], ""
    for name in wanted:
        made.append(Library(name, options.ways))
        said = text(made, ways)
        if options.out:  # so that what is done is there if the rest is broken off
            options.out.write_text(said)
    print(said)
    return int("DIFFERENT" in said or "REFUSED" in said)


if __name__ == "__main__":
    sys.exit(main())
