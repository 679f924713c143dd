"""Whether PyTorch's own tests pass under chaos.

Usage: python bench/pytorch_tests.py FOLDER FILE... [--chaos MODE] [--packages FOLDER] [--limit S]
       [--timeout S] [--out FILE]
Needs: pip install pytest pytest-xdist pytest-timeout expecttest hypothesis scipy pyyaml psutil.

FOLDER is `test` of PyTorch's source, of a version near the one that is installed; Debian's source
package has it. Files are named within it. Each runs under Tidepool with ample memory and chaos at
operators, and, if a test fails there, as a whole without Tidepool, too: some of PyTorch's tests
fail by what ran before them. What passes only without Tidepool is named. Tests run one by one in a
process that is started anew when it crashes. One that runs out of time fails, and has to be looked
at by hand: chaos takes a hundred times as long where a test calls many operators.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import measure
import run
from environments import clean_environment

BUDGET = "8GiB"
FILE_BYTES = "2GiB"  # of a second tier, for chaos that copies
LINE = re.compile(r"^(?:\[gw\d+\] \[ *\d+%\] )?(PASSED|FAILED|ERROR) \S+?::(\S+)", re.M)
CRASH = re.compile(r"crashed while running '\S+?::(\S+)'")
FIRST_ERROR = re.compile(r"^E +(\S.*)$", re.M)
HEADING = re.compile(r"^_{3,} (\S+) _{3,}$", re.M)
# test_jit.py runs only if it is told which of TorchScript's executors is asked for.
PLUGIN = ("import torch.testing._internal.common_utils as common\n"
          "common.GRAPH_EXECUTOR = common.ProfilingMode.PROFILING\n")


def results_of(output: str) -> tuple[set[str], dict[str, str]]:
    """Return which tests passed, and what those that failed said."""
    passed = {name for word, name in LINE.findall(output) if word == "PASSED"}
    failed = {name: "" for word, name in LINE.findall(output) if word != "PASSED"}
    failed |= dict.fromkeys(CRASH.findall(output), "crashed")
    _, *parts = HEADING.split(output)  # names and what stands below them, in turns
    for name, below in zip(parts[::2], parts[1::2], strict=True):
        error = FIRST_ERROR.search(below)
        name = name.replace(".", "::")
        if error and failed.get(name) == "":
            failed[name] = error[1]
    return passed - set(failed), failed


class Runner:
    """Runs files of PyTorch's tests with pytest."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        (folder / "executor_of_tests.py").write_text(PLUGIN)
        environment = measure.with_package(clean_environment())
        paths = [environment.get("PYTHONPATH"), options.packages, str(folder), str(options.folder)]
        self._environment = {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                             "OMP_NUM_THREADS": "1"}
        self._file = f"file:{folder}:{FILE_BYTES}"

    def _front(self, chaos: str | None) -> list[str]:
        if chaos is None:
            return [sys.executable]
        tier = ["--offload", self._file] if chaos.startswith("offload") else []
        return [sys.executable, "-m", "tidepool", "run", "--device", "cpu", "--budget", BUDGET,
                f"--chaos={chaos}", *tier, "--", sys.executable]

    def run(self, file: str, chaos: str | None) -> tuple[set[str], dict[str, str], bool]:
        """Run one file; return what passed, what failed, and whether it ran to its end."""
        path = self._options.folder / file
        command = [*self._front(chaos), "-m", "pytest", "-p", "no:cacheprovider", "--noconftest",
                   "-p", "executor_of_tests", "-v", "-n", "1", "--max-worker-restart", "1000",
                   "--timeout", str(self._options.timeout), "-k", "not cuda", path.name]
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(command, cwd=path.parent, env=self._environment,
                                       stdout=output, stderr=output, start_new_session=True)
            ended = True
            try:
                process.wait(self._options.limit)
            except subprocess.TimeoutExpired:
                ended = False
                os.killpg(process.pid, 9)
                process.wait()
            output.seek(0)
            return *results_of(output.read()), ended


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="`test` of PyTorch's source")
    parser.add_argument("files", nargs="+", metavar="FILE", help="such as test_autograd.py")
    parser.add_argument("--chaos", default="op", metavar="MODE", help="default: op")
    parser.add_argument("--packages", metavar="FOLDER", help="where what it needs is installed")
    parser.add_argument("--limit", type=float, default=1800, metavar="S", help="of a file")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="of a test")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the table goes")
    options = parser.parse_args(arguments)
    options.folder = options.folder.resolve()
    for file in options.files:
        if not (options.folder / file).is_file():
            parser.error(f"no file {file} in {options.folder}")
    lines = ["| file | passed | fail without, too | only here | seconds |",
             "| --- | ---: | ---: | --- | ---: |"]
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options, Path(folder))
        for file in options.files:
            began = time.monotonic()
            passed, failed, ended = runner.run(file, options.chaos)
            plain = runner.run(file, None)[0] if failed else set()
            only = {name: error for name, error in failed.items() if name in plain}
            found += len(only)
            seconds = f"{time.monotonic() - began:.0f}{'' if ended else ', not to its end'}"
            said = "; ".join(f"`{name}`: {error[:160]}" for name, error in only.items())
            lines.append(f"| {file} | {len(passed)} | {len(failed) - len(only)} | {said} "
                         f"| {seconds} |")
            print(lines[-1], flush=True)
    version = importlib.metadata.version("torch")
    text = "\n".join([f"# PyTorch's own tests under `--chaos={options.chaos}`", "",
                      f"PyTorch {version}, commit {run.commit()}.", "", *lines, ""])
    if options.out:
        options.out.write_text(text)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
