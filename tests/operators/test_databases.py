"""PyTorch's operator, module and optimizer databases under chaos: every bit equal.

Normal runs take the first two float32 samples, forward and backward (about half a minute on two
cores), and some once more with a tier. TIDEPOOL_FULL=1 takes all samples, more types, second
gradients, writes in place and into outputs, and can be stopped and started again: what is finished
is in build/databases.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
import selection
from selection import FULL

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
JOB = HERE / "database_job.py"
WORKERS = os.cpu_count() or 1 if FULL else 1  # others run beside it, and each starts PyTorch
MOST_DEATHS = 20  # of one job: each is recorded, and a job that keeps dying is given up
TOTALS = ("cases", "evicting", "replaying", "evictions", "not_here", "unequal_to_itself")

# Fewest cases in a normal run, on any PyTorch; half of what there is.
EXPECTED = {"operators": 1000, "modules": 400, "optimizers": 120, "composites": 10,
            "wide": 70}


def known_different() -> set[str]:
    """Return the operators and modules in the table of docs/supported.md."""
    text = (ROOT / "docs" / "supported.md").read_text(encoding="utf-8")
    section = text.split("## Operators and modules that differ")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def command(database: str, part: str, out: Path, *options: str) -> list[str]:
    """Return the command line of a job."""
    return [sys.executable, str(JOB), "--database", database, "--shard", part, "--out", str(out),
            *options]


def run_until_finished(jobs: dict[Path, list[str]]) -> None:
    """Run jobs side by side; start one again that died, it goes on behind where it died."""
    running, deaths = {}, Counter()
    waiting = list(jobs)
    while waiting or running:
        while waiting:
            out = waiting.pop()
            log = out.with_suffix(".log").open("w", encoding="utf-8")
            running[out] = subprocess.Popen(jobs[out], stdout=log, stderr=log), log
        out = next(iter(running))
        process, log = running.pop(out)
        status = process.wait()
        log.close()
        deaths[out] += status < 0
        if status < 0 and deaths[out] <= MOST_DEATHS:
            waiting.append(out)
            continue
        tail = Path(log.name).read_text(encoding="utf-8").splitlines()[-15:]
        assert status == 0, "\n".join([f"ended with {status} after:", *tail])


def read_groups(path: Path) -> dict[str, dict]:
    """Return the finished groups of an output."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["group"]: line for line in lines if "group" in line}


def run_database(database: str, folder: Path, *options: str, name: str = "") -> dict[str, dict]:
    """Run this shard of a database in as many processes as there are cores.

    `name` is that of the outputs, where it is not the database's.
    """
    parts = selection.SHARDS * WORKERS
    jobs = {}
    for worker in range(WORKERS):
        part = (selection.SHARD - 1) * WORKERS + worker + 1
        out = folder / f"{name or database}-{part}-of-{parts}.jsonl"
        jobs[out] = command(database, f"{part}/{parts}", out, *options)
    run_until_finished(jobs)
    return {group: line for out in jobs for group, line in read_groups(out).items()}


@pytest.fixture
def folder(tmp_path):
    """Where outputs go: they stay, in full runs."""
    if not FULL:
        return tmp_path
    import torch

    kept = ROOT / "build" / "databases" / torch.__version__
    kept.mkdir(parents=True, exist_ok=True)
    return kept


@pytest.fixture
def disk_path():
    """Returns a folder on a disk, which the one for temporary files need not be."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as made:
        yield Path(made)


# The usual run trains with every optimizer on the oldest supported PyTorch anyway.
@pytest.mark.every_shard
@pytest.mark.parametrize("database", [
    pytest.param(name, marks=[] if name == "optimizers" else [pytest.mark.torch_floor])
    for name in EXPECTED])
def test_every_entry_gives_the_same_bits(database, folder, summary):
    groups = run_database(database, folder, *(["--full"] if FULL else []))
    totals = judge(groups, database, summary)
    if selection.SHARDS == 1:
        assert totals["cases"] >= EXPECTED[database]


@pytest.mark.every_shard
@pytest.mark.parametrize("seed", (1, 2) if FULL else (1,))
@pytest.mark.parametrize("database", EXPECTED if FULL else ("composites",))
def test_every_entry_gives_the_same_bits_with_a_tier(database, seed, folder, disk_path, summary):
    """What is evicted leaves by a copy or is recomputed, as chance has it."""
    options = ["--chaos", f"offload:{seed}", *(["--full"] if FULL else [])]
    groups = run_database(database, folder if FULL else disk_path, *options,
                          name=f"{database}-offload-{seed}")
    judge(groups, f"{database} with a tier, seed {seed}", summary)


def judge(groups: dict[str, dict], name: str, summary) -> dict[str, int]:
    """Say what came out, and check it; return the totals."""
    totals = {key: sum(group.get(key, 0) for group in groups.values()) for key in TOTALS}
    wrong = {name: group["wrong"] for name, group in groups.items() if group["wrong"]}
    said = ", ".join(f"{number} {key.replace('_', ' ')}" for key, number in totals.items())
    summary("databases under chaos", f"{name}: {said}, {sum(map(len, wrong.values()))} wrong")
    # Some samples are empty, or numbers: there is nothing to evict.
    assert totals["evicting"] >= 0.85 * totals["cases"]
    assert totals["replaying"] >= 0.85 * totals["cases"]
    known = known_different()
    assert {name: what for name, what in wrong.items() if name.split()[0] not in known} == {}
    return totals


def test_what_goes_wrong_is_noticed(tmp_path):
    out = tmp_path / "broken.jsonl"
    run_until_finished({out: command("broken", "1/1", out)})
    groups = read_groups(out)
    assert groups["agrees"]["wrong"] == [] and groups["agrees"]["replaying"] == 1
    assert groups["differs"]["wrong"] == ["third: bits differ"]
    assert groups["raises"]["wrong"][0].startswith("third: RuntimeError")
    assert groups["differs_from_itself"]["unequal_to_itself"] == 1
    assert groups["dies"]["wrong"] == ["the process died"]


@pytest.mark.skipif(not FULL, reason="takes a while")
def test_a_job_goes_on_where_it_was_stopped(tmp_path):
    out = tmp_path / "modules.jsonl"
    some = ["--only", "nn.Linear,nn.GELU"]
    subprocess.run(command("modules", "1/1", out, *some), check=True, capture_output=True)
    whole = out.read_text().splitlines()
    groups = [line for line in whole if json.loads(line).get("group") == "nn.Linear float32"]
    out.write_text("\n".join(line for line in whole if "nn.GELU" not in line) + "\n{\"gro")
    subprocess.run(command("modules", "1/1", out, *some), check=True, capture_output=True)
    assert set(read_groups(out)) == {"nn.Linear float32", "nn.GELU float32"}
    assert groups[0] in out.read_text().splitlines(), "what was finished ran again"
    subprocess.run(command("modules", "1/1", out, "--only", "nn.GELU"), check=True,
                   capture_output=True)
    assert set(read_groups(out)) == {"nn.GELU float32"}, "another selection is another run"
