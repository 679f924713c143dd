"""Jobs that torch.compile compiles, whole and block by block, under budgets, beside eager ones.

Usage: python bench/compiled_jobs.py [NETWORK...] [--ways W,W...] [--rounds N] [--offload]
                                     [--markdown FILE] [--smoke]

Each network (bench/jobs/train_compiled.py) trains eagerly, compiled block by block, and compiled
whole: without Tidepool, with all the memory, under bounded chaos, under the least budget that runs,
which bisection of real jobs finds to within three percent, and in turns plainly and under 0.7 and
0.5 of its peak, three rounds. Every job that ends has to give the bits of the same job without
Tidepool. Beside these stands the whole network compiled with PyTorch's own activation memory budget
at 0.5 and 0, with its peak and time. With `--offload` what cannot be computed again may leave, too,
by a copy to a file, and chaos evicts at random what it chooses. On the CPU, one thread; what one
job has compiled the next ones find in a cache. Ends with status 1 where bits differ.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import kept_bytes
import measure
import run

sys.path.insert(0, str(measure.ROOT / "tests" / "e2e"))

from harness import JobFailed
from lab import Runner

JOB = measure.ROOT / "bench" / "jobs" / "train_compiled.py"
NETWORKS = ("gpt", "vit", "resnet", "llama")
OURS = ("eager", "blocks", "whole")  # the ways that Tidepool trains, too
WAYS = (*OURS, "whole-0.5", "whole-0")
SHARES = (0.7, 0.5)  # of a way's own peak
PLAIN = 0.0  # stands for no budget
ROUNDS, STEPS, TIMED = 3, 6, 3
WITHIN = 0.03
FINE = ("same", "out of memory")  # what may be said of the bits of a job
AMPLE = 16 << 30
MIB = 1 << 20


@dataclass
class Row:
    """What came of one way to train a network."""

    network: str
    way: str
    reference: dict  # what a job said without Tidepool
    ample: dict  # and with all the memory
    rounds: list[dict[float, dict]] = field(default_factory=list)  # by share of the peak, or PLAIN
    least: int | None = None
    verdicts: dict[str, str] = field(default_factory=dict)  # bits, by what a job ran under

    @property
    def peak(self) -> int:
        return self.ample["peak"]

    def note(self, under: str, said: dict) -> None:
        """Compare a job's bits with those of the reference."""
        if self.verdicts.get(under, "same") in FINE:
            self.verdicts[under] = kept_bytes.same(self.reference, said)

    @property
    def differs(self) -> bool:
        return "**DIFFERENT**" in self.verdicts.values()

    def ms(self) -> float:
        """Return the median time of a step without Tidepool."""
        return statistics.median(step_ms(each[PLAIN]) for each in self.rounds)

    def longer(self, share: float) -> str:
        """Return by how much longer steps take under a share of the peak: the median, the range."""
        found = sorted(step_ms(each[share]) / step_ms(each[PLAIN]) - 1 for each in self.rounds
                       if "ms" in each.get(share, {}))
        if not found:
            return "does not run"
        return f"{statistics.median(found):+.0%} ({found[0]:+.0%} to {found[-1]:+.0%})"


def step_ms(said: dict) -> float:
    """Return the median time of a job's last steps."""
    return statistics.median(said["ms"][-TIMED:])


class Bench:
    """Runs the jobs of all ways."""

    def __init__(self, rounds: int, steps: int, within: float, tier: str | None) -> None:
        self.rounds, self.steps, self.within = rounds, steps, within
        self.tier = {"offload": tier} if tier else {}
        self.chaos = "offload:5" if tier else "bounded"
        self.runner = Runner(JOB, TORCHINDUCTOR_COMPILE_THREADS="1", OMP_NUM_THREADS="1",
                             **measure.with_package({}))

    def train(self, network: str, way: str, budget: int | None = None, **settings: object) -> dict:
        """Run a job; return what it said, or its error if it has a budget.

        Raises:
            JobFailed: it failed without one.
        """
        try:
            attached = {"budget": budget, **self.tier, **settings}
            return self.runner.ask({"network": network, "way": way, "steps": self.steps,
                                    "settings": attached if budget else None})
        except JobFailed as failed:
            if budget is None:
                raise
            if "out of memory" in str(failed):
                return {"error": "out of memory"}
            print(failed, file=sys.stderr)
            return {"error": str(failed).splitlines()[-1]}

    def row(self, network: str, way: str) -> Row:
        """Run all jobs of a way."""
        row = Row(network, way, self.train(network, way),  # compiles for those that follow
                  self.train(network, way, AMPLE))
        row.note("ample", row.ample)
        turns = (PLAIN, *SHARES) if way in OURS else (PLAIN,)
        for number in range(self.rounds):
            first = number % len(turns)
            row.rounds.append({})
            for share in (*turns[first:], *turns[:first]):
                if "error" in row.rounds[0].get(share, {}):
                    continue
                budget = None if share == PLAIN else int(share * row.peak)
                said = row.rounds[-1][share] = self.train(network, way, budget)
                row.note("plain" if share == PLAIN else f"{share}", said)
        if way in OURS:
            row.note("chaos", self.train(network, way, AMPLE, chaos=self.chaos))
            row.least = self.least(row)
        return row

    def least(self, row: Row) -> int:
        """Return the least budget under which a job runs to its end."""
        def runs(budget: int) -> bool:
            said = self.train(row.network, row.way, budget)
            row.note("least", said)
            return "error" not in said

        tried = {int(share * row.peak): "error" not in row.rounds[0][share] for share in SHARES}
        # Parameters and the optimizer's state exceed half of what is left after a step, and stay
        # without a second tier.
        lasting = row.ample["after"]["allocated"] // (8 if self.tier else 2)
        low = [lasting, *(size for size in tried if not tried[size])]
        high = [row.peak, *(size for size in tried if tried[size])]
        return measure.least(runs, max(low), min(high), self.within)


def bits(row: Row, whole: Row | None) -> str:
    """Return whether all jobs of a way gave the same bits; of PyTorch's ways also as `whole`."""
    odd = [f"{under}: {verdict}" for under, verdict in row.verdicts.items()
           if verdict not in FINE]
    if odd:
        return ", ".join(odd)
    if row.way in OURS or whole is None:
        return "same"
    same = kept_bytes.same(whole.reference, row.reference) == "same"
    return "same, as whole" if same else "same, other than whole"


def cells(row: Row, whole: Row | None) -> Iterator[str]:
    """Return the cells of a row; `whole`: the row of the same network compiled whole, if known."""
    yield from (row.network, row.way, f"{row.peak / MIB:.1f}")
    if row.least is None:
        yield from ("-", "-", "-")
    else:
        yield from (f"{row.least / MIB:.1f}", f"{row.least / row.peak:.0%}",
                    f"{row.least / whole.peak:.0%}" if whole else "-")
    yield f"{row.ms():.0f}"
    for share in SHARES:
        yield row.longer(share) if row.way in OURS else "-"
    kept = kept_bytes.grown(row.ample, "before", "forward")
    yield from (f"{1 - sum(kept.values()):.1%}", kept_bytes.named(kept), bits(row, whole))


def markdown(rows: Sequence[Row]) -> str:
    rows = sorted(rows, key=lambda row: (row.network, WAYS.index(row.way)))
    whole = {row.network: row for row in rows if row.way == "whole"}
    head = ["network", "way", "peak, MiB", "least budget, MiB", "of its peak", "of whole's peak",
            "ms of a step", *(f"at {share} of its peak" for share in SHARES), "may be evicted",
            "kept of activations, above 5 %", "bits"]
    return "\n".join([
        "# Compiled jobs", "",
        f"`python bench/compiled_jobs.py {' '.join(sys.argv[1:])}`; {run.machine()['cpu']}, "
        f"{os.cpu_count()} cores, commit {run.commit()}.", "",
        f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}",
        *(f"| {' | '.join(cells(row, whole.get(row.network)))} |" for row in rows), ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is asked for and write the table; return 1 where bits differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--ways", type=lambda given: given.split(","), default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of steps that are timed")
    parser.add_argument("--offload", action="store_true", help="contents may leave by copy, too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where the table goes")
    parser.add_argument("--smoke", action="store_true", help="one small network, one round")
    options = parser.parse_args(arguments)
    networks = ["tiny"] if options.smoke else options.networks or NETWORKS
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)
        sizes = (1, 4, 0.3) if options.smoke else (options.rounds, STEPS, WITHIN)
        bench = Bench(*sizes, f"file:{folder}:16GiB" if options.offload else None)
        for way in options.ways:
            for network in networks:
                rows.append(bench.row(network, way))
                text = markdown(rows)
                print(text, flush=True)
                if options.markdown:  # so that what is done is there if the rest is broken off
                    options.markdown.write_text(text)
        bench.runner.close()
    return int(any(row.differs for row in rows))


if __name__ == "__main__":
    sys.exit(main())
