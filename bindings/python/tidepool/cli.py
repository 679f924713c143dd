"""The command line: `tidepool run --budget 8GiB -- python train.py`, and `verify` likewise.

`run` checks the settings, puts them and the preload shim into the environment, and becomes the
job: exit status and signals are the job's own, and the job's children inherit the settings. Each
process of the job that imports PyTorch and cannot have Tidepool ends there with status 2.
`verify` runs the job in such an environment and without, and compares (`_verify.py`); `probe` finds
a budget for it (`_probe.py`). `report`, `plan`, `top` and `doctor` take no job.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import _streams
from ._version import __version__
from .doctor import _doctor, _top
from .job import _outputs, _processes, _stats_file
from .planning import command as planning
from .probe import _batch, _probe
from .report import command as report
from .settings import _catalog, _conf, _places, _settings, _sizes, _trace_file
from .trust import _trust_file
from .verify import _verify

SHIM = _doctor.SHIM
_OPTIONS = tuple(each for each in _catalog.SETTINGS if each.commands and not each.switch)
# Options whose value may be the next word; that of --chaos, which may have none, is not.
_WITH_VALUE = (*(each.option for each in _OPTIONS if each.key != "chaos"), "--steps",
               "--memory", "--slowdown")
_WITH_JOB = ("run", "verify", "probe")

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


_DOCTOR_EPILOG = """\
Says what there is (Python, PyTorch, plugins, GPUs, memory), which settings hold and where each
comes from, and what is in the way, each with what to do about it. A small network is trained with
and without Tidepool, and the bits are compared.

Exit status: 0 if nothing keeps Tidepool from working, else 1.
"""


_PROBE_EPILOG = """\
examples:
  tidepool probe -- python train.py
  tidepool probe --memory 8GiB -- python train.py
  tidepool probe --slowdown 20% --json -- python train.py
  tidepool probe --memory 8GiB --batch '{batch}' 8:512 -- python train.py --batch-size '{batch}'

Runs the job for a few steps, simulates budgets, and prints what each would cost a step: time,
evictions, operators that run again. Recommended is the budget of --memory, or the least one under
which a step takes at most --slowdown longer. Then the job runs plain and under that budget, for
eight steps, and is compared bit for bit. An interruption prints what is known by then.
With --batch some small batches are recorded instead, the largest one that fits is predicted, and
it and its neighbours run for real.

Each run does everything that the job does besides, such as files that it writes. The report goes to
standard output; what the first run prints, to standard error.

Exit status:
  0  a budget is recommended and proved
  1  none does what was asked for, or the real run did not prove it
  3  could not run: wrong settings, a job that fails or takes no step
"""


_TOP_EPILOG = """\
Columns, for each process and device: budget (or what the device has given, if that is less); memory
held now, and at most; evictions and operators that ran again, a second; share of the time that
went into running operators again, choosing what to evict, and bookkeeping; plans for steps found.

Exit status: 0, or with --once or --json 1 if there is no such job.
"""


_REPORT_EPILOG = """\
examples:
  tidepool run --trace out.jsonl.gz --trace-steps 3:5 -- python train.py
  tidepool report out.jsonl.gz
  tidepool report out.jsonl.gz --budget 50% -o half.html

  tidepool run --record out.rec --budget 8GiB -- python train.py
  tidepool report out.rec

Of a recording it shows what was done for the job as it ran. With a trace, which says what the job
does by itself, it simulates budgets, and one of them step by step. It writes one HTML file that
shows, without a network: memory over time, where it lies, what is there and what stays, what is
evicted and brought back (by module and line of code), and what other budgets would cost.

Exit status: 0, or 1 if there is no report.
"""


class Refusal(Exception):
    """`run` will not start the job; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (a job started by `run` does not return)."""
    _streams.make_sound()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name = arguments[0] if arguments else ""
    refused = 2 if name == "run" else _verify.COULD_NOT_RUN  # of `verify`, 2 is a verdict
    try:
        return _command(name, arguments, refused)
    except OSError:
        if not _streams.replace_broken():
            raise
        return refused if name in _WITH_JOB else 1


def _command(name: str, arguments: list[str], refused: int) -> int:
    parser = _parser()
    if name not in _WITH_JOB:
        return _without_job(parser.parse_args(arguments or ["--help"]))
    options, command = split_command(arguments[1:])
    try:
        parsed = parser.parse_args([name, *options])
    except SystemExit as end:  # argparse's own, after its message or its help
        return refused if end.code else 0
    try:
        if not command:
            raise Refusal(f"no command given: expected `tidepool {name} --budget 8GiB -- python "
                          "train.py`")
        if name == "probe":
            return _with_verdict(lambda: _probe_job(parsed, command))
        written = _file_to_write(parsed) if name == "verify" else None
        starts = shutil.which(command[0]) is not None  # else nothing of an earlier job is removed
        environ = job_environment(parsed, os.environ, removes=starts)
    except (Refusal, _settings.SettingsError) as error:
        print(f"tidepool {name}: {error}", file=sys.stderr)
        return refused
    if name == "verify":
        return _with_verdict(lambda: _verify.main(command, environ, parsed.steps, written))
    return _become(command, environ)


def _with_verdict(find: Callable[[], int]) -> int:
    """Return the status that `find` does; no error of ours may look like a verdict."""
    try:
        return find()
    except (Refusal, _settings.SettingsError):
        raise
    except Exception:
        traceback.print_exc()
        return _verify.COULD_NOT_RUN


def _file_to_write(parsed: argparse.Namespace) -> Path | None:
    """Return the trust file that `verify` is to write, which is no setting of its runs."""
    if parsed.trust is None:
        return None
    path = Path(os.path.abspath(parsed.trust))
    if problem := _places.obstacle(path):
        raise Refusal(f"--trust {parsed.trust!r}: {problem}")
    if not os.access(path.parent, os.W_OK | os.X_OK) or not _trust_file.may_replace(path):
        raise Refusal(f"--trust {parsed.trust!r}: cannot write there, or it is no trust file")
    parsed.trust = None
    return path


def _probe_job(parsed: argparse.Namespace, command: list[str]) -> int:
    kept = {key: value for key, value in os.environ.items() if key != "TIDEPOOL_BUDGET"}

    def make_environ(**settings: str) -> dict[str, str]:
        options = argparse.Namespace(command="probe", device=parsed.device, trust=parsed.trust,
                                     replay=parsed.replay, keep=parsed.keep,
                                     offload=parsed.offload, **settings)
        return job_environment(options, kept)

    # Refuses now what would be refused later.
    settings = _settings.resolve({}, make_environ(budget="1GiB"))
    wish = _probe.Wish(parsed.memory, parsed.slowdown, parsed.steps or _probe.STEPS,
                       settings.offload)
    if parsed.batch:
        batches = _batches(parsed.batch, command, wish)
        return _batch.main(command, make_environ, wish, batches, parsed.json)
    return _probe.main(command, make_environ, wish, parsed.json)


def _batches(asked: Sequence[str], command: list[str], wish: _probe.Wish) -> _batch.Batches:
    """Return what --batch asks for; raise Refusal if that cannot be."""
    placeholder, sizes = asked
    low, _, high = sizes.partition(":")
    if not (low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high)):
        raise Refusal(f"--batch {sizes!r}: expected the least and the largest size, such as 8:512")
    if not any(placeholder in word for word in command):
        raise Refusal(f"--batch {placeholder!r}: the command has no such word to put sizes for")
    if wish.memory_bytes is None:
        raise Refusal("--batch needs --memory, the budget that the batch is to fit")
    return _batch.Batches(placeholder, int(low), int(high))


def _without_job(parsed: argparse.Namespace) -> int:
    """Run a command that takes no job; argparse has seen to it that it is one."""
    if parsed.command == "report":
        return report.main(parsed.trace, parsed.output, parsed.budget)
    if parsed.command == "plan":
        return planning.main(parsed)
    if parsed.command == "top":
        return _top.main(parsed.pid, parsed.once, parsed.json)
    return _doctor.main(parsed.json)


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split what follows `run` or `verify` into our options and the job's command.

    The command begins after `--`, at `-m`, or at the first word that is no option of ours. `-m pkg`
    and a `script.py` run in the Python that runs us, unless it is a program whose first line asks
    for another.
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
        values = 2 if word == "--batch" else int(word in _WITH_VALUE)
        options += rest[:values]
        del rest[:values]
    return options, []


def _python_command(command: list[str]) -> list[str]:
    """Put our Python before a module or a script; one that is here comes before those on PATH."""
    first = command[0] if command else ""
    if first == "-m" or (first.endswith(".py") and "/" not in first and os.path.isfile(first)):
        return [sys.executable, *command]
    if not first.endswith(".py"):
        return command
    found = shutil.which(first)
    if found is not None and _names_its_program(found):
        return command
    return [sys.executable, found or first, *command[1:]]


def _names_its_program(script: str) -> bool:
    """Return whether a script's first line asks for more than the Python that is found first."""
    try:
        with open(script, "rb") as file:
            first = file.readline(256)
    except OSError:
        return False
    any_python = re.fullmatch(rb"#!\s*\S*/env\s+python[0-9.]*\s*", first)
    return first.startswith(b"#!") and any_python is None


def job_environment(options: argparse.Namespace, inherited: Mapping[str, str],
                    removes: bool = True) -> dict[str, str]:
    """Return the job's environment with checked settings and the shim.

    Args:
        removes: whether files of an earlier job make room, so that what lies in their place
            afterwards is this job's.

    Raises:
        SettingsError: a setting is wrong.
        Refusal: the statistics or the shim are not where they can be used.
    """
    environ = dict(inherited)
    environ.pop(_processes.FIRST_VARIABLE, None)  # this is a job of its own
    _conf.take_from_conf(environ)
    given = {each.key: getattr(options, each.key, None) for each in _OPTIONS}
    if given["budget"] is None and not environ.get("TIDEPOOL_BUDGET", "").strip():
        given["budget"] = _settings.default_budget(given, environ)
    settings = _settings.resolve(given, environ)
    for key, value in given.items():
        if value is not None:
            environ[_catalog.PREFIX + key.upper()] = value
    if settings.offload:
        environ["TIDEPOOL_OFFLOAD"] = settings.offload.describe()  # the job may change its folder
    if settings.trust is not None:
        environ["TIDEPOOL_TRUST"] = os.path.abspath(settings.trust)
    if settings.plan is not None:
        environ["TIDEPOOL_PLAN"] = os.path.abspath(settings.plan)
    _outputs.check(settings, "--")
    if settings.stats is not None:
        path = Path(os.path.abspath(settings.stats))  # the job may change its folder
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise Refusal(f"--stats {settings.stats!r}: cannot write there")
        if removes:
            _remove(path)
        environ["TIDEPOOL_STATS"] = str(path)
        environ[_stats_file.OWNER_VARIABLE] = _stats_file.new_job()
    for key in ("trace", "record"):
        if (given_path := getattr(settings, key)) is None:
            continue
        path = Path(os.path.abspath(given_path))
        if removes:
            with contextlib.suppress(OSError):  # the job's recorder says what is wrong
                _remove(path)
        environ[_catalog.PREFIX + key.upper()] = str(path)
    if settings.trace is not None:
        environ[_trace_file.OWNER_VARIABLE] = _stats_file.new_job()
    elif settings.record is not None:
        environ.setdefault(_trace_file.OWNER_VARIABLE, _stats_file.new_job())
    # A run that `verify` compares goes on: what became of Tidepool is in its verdict.
    must = options.command == "run" and not options.if_possible
    environ[_catalog.REQUIRED] = "1" if must else "0"
    if getattr(options, "top", False):
        environ["TIDEPOOL_TOP"] = "1"
    environ["LD_PRELOAD"] = preload_list(SHIM, environ.get("LD_PRELOAD", ""))
    return environ


def _remove(path: Path) -> None:
    """Remove an earlier file; a symbolic link to it stays, and leads to the next one."""
    Path(os.path.realpath(path)).unlink(missing_ok=True)


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
        name = command[0]
        hint = f" (a value of --chaos is given by --chaos={name})" if command[1:2] == ["--"] else ""
        print(f"tidepool run: command not found: {name}{hint}", file=sys.stderr)
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
    commands = parser.add_subparsers(title="commands", required=True, dest="command",
                                     metavar="run | verify | probe | report | plan | top | doctor")
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
    _add_probe(commands, shape)
    _add_report(commands, shape)
    planning.add_parser(commands, shape)
    top = commands.add_parser(
        "top", help="watch running jobs", formatter_class=shape, allow_abbrev=False,
        description="Watch the running jobs of this user that were started by `tidepool run --top`,"
                    " or with TIDEPOOL_TOP=1.", epilog=_TOP_EPILOG)
    top.add_argument("pid", nargs="?", type=int, metavar="PID", help="this process only")
    top.add_argument("--once", action="store_true", help="print once, and end")
    top.add_argument("--json", action="store_true", help="print one JSON list, and end")
    doctor = commands.add_parser(
        "doctor", help="check this installation", formatter_class=shape, allow_abbrev=False,
        description="Check this installation.", epilog=_DOCTOR_EPILOG)
    doctor.add_argument("--json", action="store_true", help="one JSON object, for bug reports")
    return parser


def _add_report(commands, shape) -> None:
    parser = commands.add_parser(
        "report", help="show where a job's memory and time go", formatter_class=shape,
        allow_abbrev=False, usage="tidepool report FILE [-o FILE] [--budget SIZE]",
        description="Make a page of a job's trace, or of a recording.", epilog=_REPORT_EPILOG)
    parser.add_argument("trace", type=Path, metavar="FILE",
                        help="of `tidepool run --trace` or `--record`")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE",
                        help="the page (default: beside the file, NAME.html)")
    parser.add_argument("--budget", metavar="SIZE",
                        help="to show, such as 8GiB or 50%% of the job's peak (default: the least "
                             "of those tried that costs at most 10%%)")


def _add_probe(commands, shape) -> None:
    probe = commands.add_parser(
        "probe", help="find a budget for a job", formatter_class=shape, allow_abbrev=False,
        usage="tidepool probe [--memory SIZE | --slowdown SHARE] [options] -- COMMAND...",
        description="Find the budget that a job needs, and prove it.", epilog=_PROBE_EPILOG)
    wish = probe.add_mutually_exclusive_group()
    wish.add_argument("--memory", metavar="SIZE", type=_memory,
                      help="the memory that there is: 8GiB, 8GB or plain bytes")
    wish.add_argument("--slowdown", metavar="SHARE", type=_share,
                      help="how much longer a step may take (default: 10%%)")
    probe.add_argument("--steps", metavar="N", type=_step_count,
                       help="record steps 2 to N, if not all are alike (default: 3)")
    probe.add_argument("--batch", nargs=2, metavar=("WORD", "LOW:HIGH"),
                       help="the largest batch that fits --memory: each size is put for WORD in "
                            "the command")
    probe.add_argument("--json", action="store_true", help="print one JSON object")
    _add_settings(probe, "probe")


def _memory(text: str) -> int:
    try:
        return _sizes.parse_positive_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1
    if not 0 <= share < float("inf") or not text.endswith("%"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a share such as 10%")
    return share


def _add_settings(command: argparse.ArgumentParser, name: str) -> None:
    for setting in _catalog.SETTINGS:
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
