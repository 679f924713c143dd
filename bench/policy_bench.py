"""All policies on recorded traces, under many budgets and in all memory models.

Usage: bench/policy_bench.py TRACE... [--ratios A:B:STEP | R,R...] [--policies P,P...] [...]

Each point is one run of tidepool-replay. Points are kept in FOLDER/points.jsonl as they come; a run
that was broken off goes on where it stopped, and points of another commit are not mixed in. At the
end the folder has points.csv, summary.md, and a plot for each memory model and iteration.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import measure
import policy_summary
import run

MEMORIES = ("exact", "arena", "pages")
RATIOS = "0.7,0.5,0.4,0.3"


@dataclass(frozen=True)
class Point:
    """One question: what does the policy make of the trace under this budget?"""

    trace: str  # its file's name
    digest: str
    policy: str
    memory: str
    ratio: float
    iterations: int
    options: str  # further ones of tidepool-replay

    def command(self, program: Path, path: Path) -> list[str]:
        """Return the command that answers it."""
        return [str(program), str(path), "--json", "--jobs", "1", "--policy", self.policy,
                "--memory", self.memory, "--budget-ratio", f"{self.ratio:g}",
                "--iterations", str(self.iterations), *self.options.split()]


def program() -> Path:
    """Return the program tidepool-replay of this build."""
    path = measure.build_folder() / "lib" / "tidepool-replay"
    if not path.exists():
        sys.exit(f"{path} is not built: run ./dev build")
    return path


def parse_ratios(text: str) -> list[float]:
    """Return the ratios of `A:B:STEP` or of a list between commas.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    try:
        if ":" not in text:
            return [float(part) for part in text.split(",")]
        first, last, step = (float(part) for part in text.split(":"))
        count = int((last - first) / step + 1e-6) + 1
        return [round(first + k * step, 6) for k in range(count)]
    except (ValueError, ZeroDivisionError) as error:
        message = f"{text!r}: expected A:B:STEP, or ratios between commas"
        raise argparse.ArgumentTypeError(message) from error


def digest(path: Path) -> str:
    """Return a short digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def questions(parsed: argparse.Namespace, policies: Sequence[str]) -> Iterator[tuple[Point, Path]]:
    """Yield all points that are asked for, each with its trace's file."""
    for path in parsed.traces:
        mark = digest(path)
        for iterations in parsed.iterations:
            for memory in parsed.memories:
                for policy in policies:
                    for ratio in parsed.ratios:
                        yield Point(path.name, mark, policy, memory, ratio, iterations,
                                    parsed.options), path


def read_points(path: Path, commit: str) -> dict[Point, dict]:
    """Return what a results file has for this commit; takes a last line that is cut short off."""
    found: dict[Point, dict] = {}
    if not path.exists():
        return found
    whole, _, rest = path.read_text().rpartition("\n")
    if rest:
        path.write_text(f"{whole}\n" if whole else "")
    for line in whole.splitlines():
        kept = json.loads(line)
        if kept["commit"] == commit:
            found[Point(**kept["point"])] = kept["answer"]
    return found


def ask(path: Path, *options: str) -> dict:
    """Return what tidepool-replay says of one run of a trace.

    Raises:
        RuntimeError: it cannot run it; the message says why.
    """
    done = subprocess.run([str(program()), str(path), "--json", "--jobs", "1", *options],
                          text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{path}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def answer(point: Point, path: Path, binary: Path) -> dict:
    """Run one point."""
    done = subprocess.run(point.command(binary, path), text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{point}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def show(done: int, total: int) -> None:
    """Draw a bar on a terminal."""
    if sys.stderr.isatty():
        full = 40 * done // max(total, 1)
        print(f"\r[{'#' * full}{'.' * (40 - full)}] {done}/{total}", end="", file=sys.stderr)


def answer_all(wanted: dict[Point, Path], known: dict[Point, dict], results: Path, commit: str,
               jobs: int) -> None:
    """Answer what is not known yet, several at a time, and keep each answer at once."""
    missing = {point: path for point, path in wanted.items() if point not in known}
    binary = program()
    with results.open("a") as file, ThreadPoolExecutor(jobs) as pool:
        tasks = {pool.submit(answer, point, path, binary): point
                 for point, path in missing.items()}
        try:
            for count, task in enumerate(as_completed(tasks), 1):
                point = tasks[task]
                known[point] = task.result()
                line = {"commit": commit, "point": asdict(point), "answer": known[point]}
                file.write(json.dumps(line) + "\n")
                file.flush()
                show(count, len(missing))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if sys.stderr.isatty():
        print(file=sys.stderr)


def write_csv(path: Path, answers: Sequence[dict]) -> None:
    """Write all answers as a table."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(answers[0]))
        writer.writeheader()
        writer.writerows(answers)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE")
    parser.add_argument("--ratios", type=parse_ratios, default=parse_ratios(RATIOS),
                        help=f"budgets / peak (default: {RATIOS})")
    parser.add_argument("--policies", type=lambda text: text.split(","),
                        help="between commas (default: all)")
    parser.add_argument("--memories", type=lambda text: text.split(","), default=list(MEMORIES),
                        help=f"(default: {','.join(MEMORIES)})")
    parser.add_argument("--iterations", default=[1],
                        type=lambda text: [int(part) for part in text.split(",")],
                        help="which iterations to score, between commas (default: 1)")
    parser.add_argument("--options", default="", metavar="TEXT",
                        help="further options of tidepool-replay, as one text")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, metavar="FOLDER",
                        default=measure.ROOT / "bench" / "results" / "policy_bench",
                        help="where results are, and go (default: bench/results/policy_bench)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer all points and write the results."""
    parsed = parse(arguments)
    policies = parsed.policies
    if policies is None:
        listed = subprocess.run([str(program()), "--list-policies"], check=True, text=True,
                                capture_output=True).stdout
        policies = [line for line in listed.splitlines() if line and not line.endswith(":")]
    missing = [str(path) for path in parsed.traces if not path.is_file()]
    if missing:
        print(f"no trace {', '.join(missing)}", file=sys.stderr)
        return 2
    wanted = dict(questions(parsed, policies))
    parsed.out.mkdir(parents=True, exist_ok=True)
    results = parsed.out / "points.jsonl"
    commit = run.commit()
    known = read_points(results, commit)
    try:
        answer_all(wanted, known, results, commit, parsed.jobs)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    answers = [known[point] for point in wanted]
    write_csv(parsed.out / "points.csv", answers)
    text = policy_summary.summary(answers)
    heading = f"Commit {commit}, {run.machine()['cpu']}, {len(answers)} points.\n\n"
    (parsed.out / "summary.md").write_text(heading + text)
    for name, picture in policy_summary.plots(answers):
        (parsed.out / f"{name}.svg").write_text(picture)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
