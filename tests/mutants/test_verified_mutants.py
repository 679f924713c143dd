"""`tidepool verify` on a job in which a mutant shows names the step, and the operator to blame.

Only with TIDEPOOL_FULL=1, on the newest PyTorch, after a build of the mutants (./dev).
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import laboratory
import pytest
from mutant_table import COUNTED_RULES, ENDING, KILLERS, WRONG
from test_mutants import pytestmark  # noqa: F401

JOBS = KILLERS | ENDING
VERIFY_SECONDS = 600
SAME, DIFFERS = 0, 1
# Under a dispatch mode of PyTorch, such as the watch, autocast stays off within operators, and
# nothing is compiled. What Tidepool noticed by itself is reported, by operator.
ONLY_UNWATCHED = ("5.compiled", "8.autocast")
BLAMED = re.compile(r"operator: (?:\S+ \(call \d+ of step \d+\), passed on by )?"
                    r"(?P<operator>\S+) \(call \d+ of step (?P<step>\d+)\): (?:what|other)")
BLAMED_UNWATCHED = re.compile(r"operator: not found: with its operators watched .* came back "
                              r"otherwise than they were evicted: (.*)")
REPLAYS = re.compile(r"(\d+) operators? replayed")


def verify(killer, mutant: str, package: str, out) -> subprocess.CompletedProcess[str]:
    """Verify a killer's job under a mutant; none if it is empty."""
    environ = {"PYTHONPATH": package, **laboratory.settings(killer)}
    if mutant:
        environ["TIDEPOOL_MUTANT"] = mutant
    command = [sys.executable, "-m", "tidepool", "verify", "--", sys.executable,
               str(laboratory.JOB), "--out", str(out), killer.model]
    return subprocess.run(command, env=laboratory.environment(**environ), text=True,
                          capture_output=True, timeout=VERIFY_SECONDS)


@pytest.fixture(scope="module")
def verified(request, tmp_path_factory):
    """Starts the selected verifications, as many at a time as there are cores."""
    folder = tmp_path_factory.mktemp("verified")
    package = str(laboratory.mutants_package(folder))
    names = [item.callspec.params["name"] for item in request.session.items
             if item.module is request.module and hasattr(item, "callspec")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        def start(name, mutant, label):
            return pool.submit(verify, JOBS[name], mutant, package, folder / label)

        done = {name: [start(name, name, name)] for name in names}
        for name in names:
            if name.split(".")[0] in COUNTED_RULES:
                done[name].append(start(name, "", f"{name}_sound"))
        yield lambda name: [each.result() for each in done[name]]
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", sorted(JOBS))
def test_verify_names_step_and_operator(name, verified):
    done, *sound = verified(name)
    killer, said = JOBS[name], done.stdout + done.stderr[-3000:]
    if sound:  # the bits are the same, at the price of replays
        assert [each.returncode for each in (done, *sound)] == [SAME, SAME], said
        mutant, without = (int(REPLAYS.search(each.stdout)[1]) for each in (done, *sound))
        assert mutant > without, WRONG[name]
        return
    assert done.returncode == DIFFERS, said
    place = f"first difference: step {killer.step} of 3"
    if name in ENDING:
        place = f"exits with status 1; steps that are the same before that: {killer.step - 1} of 3"
    assert place in done.stdout, said
    if name in ONLY_UNWATCHED:
        found = BLAMED_UNWATCHED.search(done.stdout)
        assert found and f"{killer.shows} (" in found[1], said
        return
    found = BLAMED.search(done.stdout)
    assert found and found["operator"] == killer.shows, said
    assert int(found["step"]) == killer.step, said
