"""The tutorial's commands print what it shows; numbers differ from machine to machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

DOCS = Path(__file__).resolve().parents[2] / "docs"
# What runs the job three times is tried elsewhere, and one run under an ample budget is enough.
LEFT_OUT = ("tidepool verify", "tidepool run --budget 1GiB")


def sessions() -> list[tuple[str, str]]:
    """Return the tutorial's commands, each with the output that it shows."""
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    commands = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)]
    return [(command, shown) for command, _, shown in
            (part.partition("\n") for part in commands) if command]


# What follows these depends on how fast the machine is, and on the moment at which memory runs out.
VARYING = ("A budget to try: ", "planned  ")


def pattern(shown: str) -> str:
    """Return a pattern for an output: any number and unit for each, and "..." for any lines."""
    lines = []
    for line in shown.splitlines():
        fixed = next((start for start in VARYING if line.startswith(start)), line)
        text = re.sub(r"\d+(\\\.\d+)?", r"\\d+(\\.\\d+)?", re.escape(fixed))
        text = re.sub(r"(\\ )+", " +", re.sub("[KM]iB", "[KM]iB", text))
        rest = ".*" if fixed != line else ""
        lines.append(r"(?:.*\n)*?" if line == "..." else rf"{text}{rest}\n")
    return "".join(lines)


def test_the_commands_do_what_is_shown(tmp_path):
    (tmp_path / "train.py").write_bytes((DOCS / "examples" / "train.py").read_bytes())
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = 0
    for command, shown in sessions():
        if command.startswith(LEFT_OUT):
            continue
        program, *arguments = command.replace(" python ", f" {sys.executable} ").split()
        run = subprocess.run([Path(sys.executable).with_name(program), *arguments], cwd=tmp_path,
                             env=environ, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        assert re.fullmatch(pattern(shown), run.stdout), f"{command} printed:\n{run.stdout}"
        done += 1
    assert done >= 4
