"""The command line: `tidepool run --budget 8GiB -- python train.py`.

`run` checks the settings, puts them and the preload shim into the environment, and becomes the
job: exit status and signals are the job's own, and the job's children inherit the settings.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import _plugin, _settings, _stats_file
from ._version import __version__

SHIM = _plugin.LIBRARY_FOLDER / "libtidepool_preload.so"
_WITH_VALUE = ("--budget", "--policy", "--stats", "--device")

_EPILOG = """\
examples:
  tidepool run --budget 8GiB -- python train.py --epochs 3
  tidepool run --budget 60% --stats out.json -m package.train
  tidepool run --budget 8GiB train.py

Sizes: KiB is 1024, KB is 1000; % is of the memory that the process may use (machine or cgroup).
Each setting has a variable, TIDEPOOL_BUDGET and so on, which an option overrides. A job that
cannot keep within the budget gets PyTorch's OutOfMemoryError with a report.
Exit status: the job's; 2 for wrong settings, 126 or 127 if the command cannot be started.
"""


class Refusal(Exception):
    """`run` will not start the job; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (a started job does not return)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    if arguments[:1] != ["run"]:
        parser.parse_args(arguments or ["--help"])
        return 2
    options, command = split_command(arguments[1:])
    parsed = parser.parse_args(["run", *options])
    try:
        if not command:
            raise Refusal("no command given: expected `tidepool run --budget 8GiB -- python "
                          "train.py`")
        environ = job_environment(parsed, os.environ)
    except (Refusal, _settings.SettingsError) as error:
        print(f"tidepool run: {error}", file=sys.stderr)
        return 2
    return _become(command, environ)


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split what follows `run` into our options and the job's command.

    The command begins after `--`, at `-m`, or at the first word that is no option of ours. `-m pkg`
    and `script.py` run in the Python that runs us.
    """
    options: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return options, _python_command(rest)
        if word == "-m" or not word.startswith("-"):
            return options, _python_command([word, *rest])
        options.append("--chaos=op" if word == "--chaos" else word)
        if word in _WITH_VALUE and rest:
            options.append(rest.pop(0))
    return options, []


def _python_command(command: list[str]) -> list[str]:
    is_script = command and command[0].endswith(".py")
    is_module = command and command[0] == "-m"
    return [sys.executable, *command] if is_script or is_module else command


def job_environment(options: argparse.Namespace, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the job's environment with checked settings and the shim.

    Raises:
        SettingsError: a setting is wrong.
        Refusal: the statistics or the shim are not where they can be used.
    """
    environ = dict(inherited)
    _settings.take_from_conf(environ)
    given = {key: getattr(options, key) for key in ("budget", "policy", "chaos", "stats", "device")}
    settings = _settings.resolve(given, environ)
    for key, value in given.items():
        if value is not None:
            environ[_settings.PREFIX + key.upper()] = value
    if settings.stats is not None:
        path = Path(os.path.abspath(settings.stats))  # the job may change its folder
        if not os.access(path.parent, os.W_OK | os.X_OK) or path.is_dir():
            raise Refusal(f"--stats {settings.stats!r}: cannot write there")
        if not _stats_file.may_replace(path):
            raise Refusal(f"--stats {settings.stats!r}: exists and is no statistics file")
        path.unlink(missing_ok=True)  # so that what lies there afterwards is this job's
        environ["TIDEPOOL_STATS"] = str(path)
        environ[_stats_file.OWNER_VARIABLE] = _stats_file.new_job()
    environ["LD_PRELOAD"] = preload_list(SHIM, environ.get("LD_PRELOAD", ""))
    return environ


def preload_list(shim: Path, before: str) -> str:
    """Return LD_PRELOAD with the shim in front of what is there already."""
    if not shim.is_file():
        raise Refusal(f"the preload library is missing: {shim}")
    if any(c in str(shim) for c in " :\t\n"):
        raise Refusal(f"LD_PRELOAD cannot hold a path with blanks or colons: {shim}")
    others = [entry for entry in before.replace(":", " ").split() if entry != str(shim)]
    return ":".join([str(shim), *others])


def _become(command: list[str], environ: dict[str, str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], command, environ)
    except FileNotFoundError:
        print(f"tidepool run: command not found: {command[0]}", file=sys.stderr)
        return 127
    except OSError as error:
        print(f"tidepool run: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 126


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="tidepool", allow_abbrev=False,
        description="Run PyTorch jobs within a hard memory budget, with the same bits.")
    parser.add_argument("--version", action="version", version=f"tidepool {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="run", required=True)
    run = commands.add_parser(
        "run", help="run a job within a budget", formatter_class=shape, allow_abbrev=False,
        usage="tidepool run --budget SIZE [options] -- COMMAND...\n"
              "       tidepool run --budget SIZE [options] -m MODULE...",
        description="Run an unmodified PyTorch job within a memory budget.", epilog=_EPILOG)
    run.add_argument("--budget", metavar="SIZE", help="hard cap: 8GiB, 8GB, plain bytes or 60%%")
    run.add_argument("--policy", metavar="NAME",
                     help=f"what to evict: {', '.join(_settings.POLICIES)} (default: need1)")
    run.add_argument("--chaos", metavar="MODE",
                     help="evict on purpose, for tests: op (the default of a bare --chaos), alloc "
                          "or random:SEED; give it as --chaos=MODE")
    run.add_argument("--stats", metavar="FILE", help="write statistics at exit, JSON")
    run.add_argument("--device", metavar="NAME",
                     help="cpu or cuda (default: cuda if a GPU is visible, else cpu; this version "
                          "manages cpu only)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
