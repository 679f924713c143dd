"""The command line: `tidepool run --budget 8GiB -- python train.py`, and `verify` likewise.

`run` checks the settings, puts them and the preload shim into the environment, and becomes the
job: exit status and signals are the job's own, and the job's children inherit the settings. Each
process of the job that imports PyTorch and cannot have Tidepool ends there with status 2.
`verify` runs the job in such an environment and without, and compares (`_verify.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import _plugin, _settings, _stats_file, _trace_file, _verify
from ._version import __version__

SHIM = _plugin.LIBRARY_FOLDER / "libtidepool_preload.so"
_OPTIONS = tuple(each for each in _settings.SETTINGS if each.commands and not each.switch)
# Options whose value may be the next word; that of --chaos, which may have none, is not.
_WITH_VALUE = (*(each.option for each in _OPTIONS if each.key != "chaos"), "--steps")

_EPILOG = """\
examples:
  tidepool run --budget 8GiB -- python train.py --epochs 3
  tidepool run --budget 60% --stats out.json -m package.train
  tidepool run train.py    (on a GPU: evicts once the device is full)
  tidepool run --trace out.jsonl.gz --trace-steps 3:4 train.py

Sizes: KiB is 1024, KB is 1000; % is of the memory that the process may use (machine or cgroup;
of each GPU's memory on cuda).
Each setting has a variable, TIDEPOOL_BUDGET and so on, which an option overrides. A job that
cannot keep within the budget gets PyTorch's OutOfMemoryError with a report.
Exit status: the job's; 2 for wrong settings, 126 or 127 if the command cannot be started. A process
that imports PyTorch and cannot be kept within the budget (there is no plugin for that PyTorch, or
the budget is impossible) ends there with status 2, unless --if-possible is given.
"""

_VERIFY_EPILOG = """\
example:
  tidepool verify --budget 2GiB --steps 20 -- python train.py

Runs the job three times, with everything that it does besides, such as files that it writes: plain,
plain again (is it the same as itself?), and with Tidepool. Compares losses, gradients, parameters,
buffers and random numbers of each step, bit for bit. If Tidepool makes a difference, further runs,
up to that step, find the operator.

The report goes to standard output; what the first run prints, to standard error. The job reads
nothing from standard input.

Exit status:
  0  same
  1  differs because of Tidepool: the report names step, tensor and operator
  2  the job differs from itself, without Tidepool
  3  could not run: wrong settings, a job that fails, takes no step or runs out of memory
"""


class Refusal(Exception):
    """`run` will not start the job; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (a job started by `run` does not return)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    name = arguments[0] if arguments else ""
    if name not in ("run", "verify"):
        parser.parse_args(arguments or ["--help"])
        return 2
    # Of `verify`, 2 is a verdict.
    refused = 2 if name == "run" else _verify.COULD_NOT_RUN
    options, command = split_command(arguments[1:])
    try:
        parsed = parser.parse_args([name, *options])
    except SystemExit as end:  # argparse's own, after its message or its help
        return refused if end.code else 0
    try:
        if not command:
            raise Refusal(f"no command given: expected `tidepool {name} --budget 8GiB -- python "
                          "train.py`")
        environ = job_environment(parsed, os.environ)
    except (Refusal, _settings.SettingsError) as error:
        print(f"tidepool {name}: {error}", file=sys.stderr)
        return refused
    if name == "verify":
        return _verify.main(command, environ, parsed.steps)
    return _become(command, environ)


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split what follows `run` or `verify` into our options and the job's command.

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
    given = {each.key: getattr(options, each.key, None) for each in _OPTIONS}
    if given["budget"] is None and not environ.get("TIDEPOOL_BUDGET", "").strip():
        given["budget"] = _settings.default_budget(given, environ)
    settings = _settings.resolve(given, environ)
    for key, value in given.items():
        if value is not None:
            environ[_settings.PREFIX + key.upper()] = value
    if settings.offload:
        environ["TIDEPOOL_OFFLOAD"] = settings.offload.describe()  # the job may change its folder
    if settings.stats is not None:
        path = Path(os.path.abspath(settings.stats))  # the job may change its folder
        if not os.access(path.parent, os.W_OK | os.X_OK) or path.is_dir():
            raise Refusal(f"--stats {settings.stats!r}: cannot write there")
        if not _stats_file.may_replace(path):
            raise Refusal(f"--stats {settings.stats!r}: exists and is no statistics file")
        path.unlink(missing_ok=True)  # so that what lies there afterwards is this job's
        environ["TIDEPOOL_STATS"] = str(path)
        environ[_stats_file.OWNER_VARIABLE] = _stats_file.new_job()
    if settings.trace is not None:
        path = Path(os.path.abspath(settings.trace))
        if not _trace_file.may_replace(path):
            raise Refusal(f"--trace {settings.trace!r}: exists and is no trace")
        with contextlib.suppress(OSError):  # the job's recorder says what is wrong
            path.unlink(missing_ok=True)
        environ["TIDEPOOL_TRACE"] = str(path)
        environ[_trace_file.OWNER_VARIABLE] = _stats_file.new_job()
    # A run that `verify` compares goes on: what became of Tidepool is in its verdict.
    must = options.command == "run" and not options.if_possible
    environ[_settings.REQUIRED] = "1" if must else "0"
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
    commands = parser.add_subparsers(title="commands", metavar="run | verify", required=True,
                                     dest="command")
    run = commands.add_parser(
        "run", help="run a job within a budget", formatter_class=shape, allow_abbrev=False,
        usage="tidepool run [--budget SIZE] [options] -- COMMAND...\n"
              "       tidepool run [--budget SIZE] [options] -m MODULE...",
        description="Run an unmodified PyTorch job within a memory budget.", epilog=_EPILOG)
    _add_settings(run, "run")
    verify = commands.add_parser(
        "verify", help="check that a job computes the same bits", formatter_class=shape,
        allow_abbrev=False, usage="tidepool verify --budget SIZE [options] -- COMMAND...\n"
              "       tidepool verify --budget SIZE [options] -m MODULE...",
        description="Check that a job computes the same bits with Tidepool as without.",
        epilog=_VERIFY_EPILOG)
    _add_settings(verify, "verify")
    verify.add_argument("--steps", metavar="N", type=_step_count,
                        help="stop each run after N calls of an optimizer's step")
    return parser


def _add_settings(command: argparse.ArgumentParser, name: str) -> None:
    for setting in _settings.SETTINGS:
        if name not in setting.commands:
            continue
        if setting.switch:
            command.add_argument(setting.switch, action="store_true", help=setting.help)
            continue
        default = f" (default: {setting.default})" if setting.default else ""
        command.add_argument(setting.option, metavar=setting.value,
                             help=(setting.help + default).replace("%", "%%"))


def _step_count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number above zero")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
