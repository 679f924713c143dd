"""Compares what Tidepool does for running jobs with what its simulator says, one by one.

Each network is recorded once with ample memory. Then it runs under budgets, driven by the costs
of its trace, and logs what is done for it; the simulator runs the trace under the same budgets and
logs the same. The logs should be equal, line by line, and the bits those of the plain job. Step
times are those of the last two steps of runs that are not driven, which take turns with plain
ones; the default has its plan by then.

A budget is r: fixed bytes (parameters, gradients, optimizer's state, batch), and that share of the
rest of the peak.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import measure
from environments import clean_environment

JOB = Path(__file__).resolve().parent / "jobs" / "repeated_network.py"
NETWORKS = ("resnet50", "gpt", "unet", "treelstm")
RATIOS = (0.8, 0.6, 0.5, 0.4)
POLICIES = ("default", "coop", "dtr-eq")
# What the default is to a job without a plan: plans come when they have been found.
NAMES = {"default": "planned"}
TIMED_STEPS = 2
SECONDS = 600


@dataclass
class Comparison:
    """Two logs of what was done for a job."""

    product: list[str]
    simulated: list[str]

    @property
    def equal(self) -> int:
        """Return how many lines are equal before the first that differs."""
        pairs = enumerate(zip_longest(self.product, self.simulated))
        return next((k for k, (one, other) in pairs if one != other), len(self.product))

    @property
    def same(self) -> bool:
        return self.product == self.simulated

    def count(self, what: str) -> int:
        """Return how many lines of the job's log say this."""
        return sum(line.split()[1] == what for line in self.product)

    def difference(self) -> str:
        """Return the first lines that differ, or nothing."""
        if self.same:
            return ""
        lines = [(log[self.equal] if self.equal < len(log) else "nothing")
                 for log in (self.product, self.simulated)]
        return f"line {self.equal + 1}: the job has {lines[0]}, the simulation {lines[1]}"


@dataclass
class Point:
    """A network under one budget and policy."""

    network: str
    ratio: float
    policy: str
    budget: int
    logs: Comparison
    bits: bool
    seconds: list[float] = field(default_factory=list)  # of steps, not driven
    problem: str = ""  # why it could not run to its end

    @property
    def name(self) -> str:
        return f"{self.network} r={self.ratio:g} {self.policy}"


class JobFailed(RuntimeError):
    """A job did not run to its end."""


class Network:
    """One network, and the files of its runs."""

    def __init__(self, name: str, steps: int, folder: Path) -> None:
        self.name, self.steps, self.folder = name, steps, folder
        self.trace = folder / f"{name}.jsonl"
        self.plain = self.run()
        self.plain_seconds = self.plain["seconds"][-TIMED_STEPS:]
        self.peak = 0

    def record(self) -> None:
        """Record the trace, with ample memory."""
        stats = self.folder / "stats.json"
        answer = self.run(["--trace", str(self.trace), "--stats", str(stats)],
                          TIDEPOOL_TRACE_BLOCKS="1")
        if answer["digest"] != self.plain["digest"]:
            sys.exit(f"{self.name}: the job does not repeat itself")
        self.peak = json.loads(stats.read_text())["devices"]["cpu"]["allocated_peak_bytes"]

    def budget(self, ratio: float) -> int:
        fixed = self.plain["fixed_bytes"]
        return fixed + int(ratio * (self.peak - fixed))

    def run(self, options: list[str] | None = None, **environ: str) -> dict:
        """Run the job, with Tidepool if there are options; return what it says of itself."""
        out = self.folder / "out.json"
        out.unlink(missing_ok=True)
        front = [] if options is None else ["-m", "tidepool", "run", "--device", "cpu", *options,
                                            "--", sys.executable]
        environ = {**measure.with_package(clean_environment()), "CUDA_VISIBLE_DEVICES": "",
                   "TIDEPOOL_QUIET": "1", **environ}
        done = subprocess.run([sys.executable, *front, str(JOB), self.name, str(self.steps),
                               str(out)], env=environ, text=True, capture_output=True,
                              timeout=SECONDS)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if "Error" in line]
            raise JobFailed(lines[0] if lines else done.stderr[-500:])
        return json.loads(out.read_text())

    def compare(self, ratio: float, policy: str) -> Point:
        """Run the job driven by its trace, and the simulation."""
        budget = self.budget(ratio)
        log, simulated = self.folder / "job.log", self.folder / "simulated.log"
        options = ["--budget", str(budget), "--policy", NAMES.get(policy, policy)]
        problem, bits = "", False
        try:
            answer = self.run([*options, "--trace", str(self.folder / "again.jsonl")],
                              TIDEPOOL_COSTS=str(self.trace), TIDEPOOL_EVENT_LOG=str(log))
            bits = answer["digest"] == self.plain["digest"]
        except JobFailed as failure:
            problem = str(failure)
        replay = measure.build_folder() / "lib" / "tidepool-replay"
        subprocess.run([str(replay), str(self.trace), *options, "--json", "--log",
                        str(simulated)], check=True, capture_output=True, timeout=SECONDS)
        logs = Comparison(*(path.read_text().splitlines() for path in (log, simulated)))
        return Point(self.name, ratio, policy, budget, logs, bits, problem=problem)

    def time(self, points: Iterable[Point]) -> None:
        """Measure a plain run, and one of each point."""
        self.plain_seconds += self.run()["seconds"][-TIMED_STEPS:]
        for point in points:
            if point.problem:
                continue
            answer = self.run(["--budget", str(point.budget), "--policy",
                               NAMES.get(point.policy, point.policy)],
                              TIDEPOOL_PLANNING="wait")
            point.seconds += answer["seconds"][-TIMED_STEPS:]
            point.bits &= answer["digest"] == self.plain["digest"]


def results_of(network: Network, points: list[Point]) -> list[measure.Result]:
    """Return the figures of one network."""
    found = [measure.summarize(f"{network.name} plain: step", "ms",
                               [1e3 * each for each in network.plain_seconds])]
    for point in points:
        share = point.logs.equal / max(1, len(point.logs.product))
        found += [measure.summarize(f"{point.name}: evictions", "", [point.logs.count("evict")]),
                  measure.summarize(f"{point.name}: replays", "", [point.logs.count("replay")]),
                  measure.summarize(f"{point.name}: equal to the simulation", "", [share]),
                  measure.summarize(f"{point.name}: bits equal", "", [point.bits])]
        if point.seconds:
            found.append(measure.summarize(f"{point.name}: step", "ms",
                                           [1e3 * each for each in point.seconds]))
    return found


def markdown(networks: list[Network], points: list[Point]) -> str:
    """Return all points as a table."""
    lines = ["| network | r | policy | budget MiB | evictions | replays | equal lines | bits "
             "| step / plain |", "|" + " --- |" * 9]
    plain = {network.name: min(network.plain_seconds) for network in networks}
    for point in points:
        logs = point.logs
        equal = "all" if logs.same else f"{logs.equal} of {len(logs.product)}"
        ratio = f"{min(point.seconds) / plain[point.network]:.2f}" if point.seconds else ""
        lines.append(f"| {point.network} | {point.ratio:g} | {point.policy} "
                     f"| {point.budget / 2**20:.1f} | {logs.count('evict')} "
                     f"| {logs.count('replay')} | {equal} | {'equal' if point.bits else 'NO'} "
                     f"| {ratio} |")
    differing = [f"{point.name}: {point.problem or point.logs.difference()}" for point in points
                 if point.problem or not point.logs.same]
    steps = [f"{network.name}: {1e3 * min(network.plain_seconds):.0f} ms" for network in networks]
    return "\n".join(["# The running job against its simulation", "",
                      "Evictions and replays of jobs driven by the costs of their traces, and",
                      "whether the simulation has the same, line by line. `step / plain`: the",
                      "shortest of the last steps' processor time in runs with measured costs, by",
                      "that of plain runs. `default` follows a plan there, if it has found one.",
                      "", *lines, "",
                      f"Plain steps: {'; '.join(steps)}.", "", *differing]) + "\n"


def main() -> int:
    parser = measure.options(__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="which (default: all)")
    parser.add_argument("--steps", type=int, default=6, metavar="N")
    parser.add_argument("--rounds", type=int, default=2, metavar="N",
                        help="how often step times are measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parsed = parser.parse_args()
    wanted = parsed.networks or (["unet"] if parsed.smoke else NETWORKS)
    ratios, rounds = ((0.6,), 0) if parsed.smoke else (RATIOS, parsed.rounds)
    steps = 2 if parsed.smoke else parsed.steps
    networks, points, results = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            network = Network(name, steps, Path(folder))
            network.record()
            mine = [network.compare(ratio, policy) for ratio in ratios for policy in POLICIES]
            for point in mine:
                said = point.problem or point.logs.difference() or "the same"
                print(f"{point.name}: {len(point.logs.product)} lines, {said}; bits "
                      f"{'equal' if point.bits else 'DIFFER'}", flush=True)
            for _ in range(rounds):
                network.time(mine)
            networks.append(network)
            points += mine
            results += results_of(network, mine)
            if parsed.markdown:
                parsed.markdown.write_text(markdown(networks, points))
    measure.report(parsed, results)
    return 0 if all(point.logs.same and point.bits for point in points) else 1


if __name__ == "__main__":
    sys.exit(main())
