"""What the parts of bench/gpu_check.py print: one line of JSON for each thing that they found."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import measure

UNFINISHED = 3  # exit status: there is more to do, which another run goes on with


def _print(content: dict) -> None:
    print(json.dumps(content), flush=True)


def tell(fact: str, value: float | str) -> None:
    """Say a number, or a few words."""
    _print({"fact": fact, "value": value})


def result(found: measure.Result) -> None:
    """Say a measured number."""
    _print({"result": asdict(found)})


def samples(name: str, unit: str, found: Sequence[float]) -> None:
    """Say what was measured several times."""
    _print({"name": name, "unit": unit, "samples": list(found)})


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Say a table, if there is anything in it."""
    if rows:
        _print({"table": title, "columns": list(columns), "rows": [list(row) for row in rows]})


def plot(name: str, picture: str) -> None:
    """Say a picture, as the text of an SVG file."""
    _print({"plot": name, "svg": picture})
