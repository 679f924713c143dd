"""An installed Tidepool as the tests see it: a copy of the package, and jobs that run with it."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = ROOT / "bindings" / "python" / "tidepool"


def build(source: Path, library: Path, *flags: str) -> None:
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", *flags, "-o",
                    str(library), str(source), "-ldl", "-lpthread"], check=True)


@dataclass
class Installation:
    """A copy of the package with libraries of its own, and how to run a job with it."""

    package: Path

    @property
    def shim(self) -> Path:
        return self.package / "lib" / "libtidepool_preload.so"

    def run(self, *command: str, torch=True, check=None, **environ: str):
        """Run a command to its end; `environ` adds variables, `torch` puts the fake one in place.

        Returns the finished process with text output; `check` is its expected exit status.
        """
        done = subprocess.run(list(command), env=self.environ(torch, environ), text=True,
                              capture_output=True, timeout=60)
        if check is not None:
            assert done.returncode == check, done.stderr
        return done

    def environ(self, torch: bool, extra: dict) -> dict:
        paths = [str(HERE / "fake_torch")] if torch else []
        return {**os.environ, "PYTHONPATH": ":".join(paths), **extra}

    def preloaded(self, *command: str, **options):
        return self.run(*command, LD_PRELOAD=str(self.shim), **options)

    def tidepool(self, *arguments: str, **options):
        """Run the command line of this copy, as its console script would."""
        return self.run(*self.command(*arguments), **options)

    def command(self, *arguments: str) -> list[str]:
        """Return what runs the command line of this copy."""
        code = (f"import sys; sys.path.insert(0, {str(self.package.parent)!r}); "
                "from tidepool.cli import main; sys.exit(main())")
        return [sys.executable, "-c", code, *arguments]
