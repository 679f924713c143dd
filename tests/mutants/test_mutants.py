"""Each mutant of mutants.py is noticed: its killer's bits, or its replays, differ.

Only with TIDEPOOL_FULL=1, on the newest PyTorch, after a build of the mutants (./dev).
"""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import laboratory
import pytest
import torch
from mutant_table import COUNTED_RULES, IN_CPP, KILLERS, ROOT, WRONG
from selection import FULL

NEWEST = re.search(r"^torch==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)[1]

pytestmark = [
    pytest.mark.skipif(not FULL, reason="takes minutes: TIDEPOOL_FULL=1"),
    pytest.mark.skipif(torch.__version__.split("+")[0] != NEWEST, reason=f"for PyTorch {NEWEST}"),
]


def cpp_test(program: str) -> Path:
    return laboratory.MUTANTS / "tests" / program / f"tidepool_{program}_test"


class Hunt:
    """Runs plain jobs, jobs without a mutant, and mutants, several at a time."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.package = str(laboratory.mutants_package(folder))
        self.pool = ThreadPoolExecutor(os.cpu_count())
        self.plain, self.sound, self.mutants = {}, {}, {}

    def start(self, names: list[str]) -> None:
        for group in laboratory.groups([KILLERS[name] for name in names]):
            models = [killer.model for killer in group]
            number = len(self.sound)
            plain = self.pool.submit(laboratory.run, models, self.folder / f"plain_{number}")
            sound = self.attach(group[0], models, f"sound_{number}", "")
            for killer in group:
                self.plain[killer.model] = plain
                self.sound[killer.job] = sound
        for name in names:
            self.mutants[name] = self.attach(KILLERS[name], [KILLERS[name].model], name, name)

    def attach(self, killer, models, label, mutant):
        environ = {"PYTHONPATH": self.package, **laboratory.settings(killer)}
        if mutant:
            environ["TIDEPOOL_MUTANT"] = mutant
        return self.pool.submit(laboratory.run, models, self.folder / label, **environ)


@pytest.fixture(scope="module")
def hunt(request, tmp_path_factory):
    assert laboratory.MUTANTS_LIB.is_dir(), "build the mutants first: ./dev test --full"
    made = Hunt(tmp_path_factory.mktemp("mutants"))
    selected = [item.callspec.params["name"] for item in request.session.items
                if item.module is request.module and hasattr(item, "callspec")]
    made.start([name for name in selected if name in KILLERS])
    yield made
    made.pool.shutdown(cancel_futures=True)


def tell(summary, name: str, how: str | int | None) -> None:
    """List what has noticed a mutant; without that, it survives."""
    summary("what notices which mutant", f"{name:<22} {how or 'SURVIVES'}")


@pytest.mark.parametrize("name", sorted(KILLERS))
def test_mutant_is_noticed_by_its_job(name, hunt, summary):
    killer = KILLERS[name]
    plain = hunt.plain[killer.model].result().of(killer.model)
    sound = hunt.sound[killer.job].result().of(killer.model)
    found = hunt.mutants[name].result()
    assert plain.status == 0, plain.explain()
    assert sound.status == 0 and sound.difference(plain) is None, sound.explain()
    assert f"mutant: {name}" in found.errors, f"not the mutants build: {found.explain()}"
    how = found.difference(plain)
    if name.split(".")[0] in COUNTED_RULES:
        assert how is None, f"other bits, too: {how}"
        own, others = found.replays(), sound.replays()
        how = f"{own} replays instead of {others}" if own > others else None
    tell(summary, name, how and f"job {killer.model}: {how}")
    assert how, f"{WRONG[name]}: survived\n{found.explain()}"
    assert found.status == 0, f"noticed ({how}), but then: {found.explain()}"


@pytest.mark.parametrize("name", sorted(IN_CPP))
def test_mutant_is_noticed_by_tests_in_cpp(name, summary):
    program, file = IN_CPP[name]
    command = [str(cpp_test(program)), "--filenames-as-tags", f"[#{file}]"]
    environ = laboratory.environment(TIDEPOOL_SCOPE_EVENTS="3")
    status = {mutant: subprocess.run(command, capture_output=True, text=True, timeout=600,
                                     env=environ | {"TIDEPOOL_MUTANT": mutant}).returncode
              for mutant in ("", name)}
    assert status[""] == 0
    tell(summary, name, status[name] and f"{file}: exit status {status[name]}")
    assert status[name] != 0, f"{WRONG[name]}: survived"


def test_an_unknown_mutant_is_refused():
    environ = laboratory.environment(TIDEPOOL_MUTANT="2.inplace")
    done = subprocess.run([str(cpp_test("sim")), "--list-tests"], env=environ, capture_output=True,
                          text=True)
    assert done.returncode == 2 and "2.in_place" in done.stderr
