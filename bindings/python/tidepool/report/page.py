"""Writes the page: data, style and scripts in one HTML file that needs no network."""

from __future__ import annotations

import base64
import gzip
import html as markup
import json
from pathlib import Path

from .._version import __version__
from ..settings import _sizes
from .pins import REASONS
from .trace_reader import ROLES

_ASSETS = Path(__file__).resolve().parent / "assets"
# The parts of the page's script, in their order.
_SCRIPTS = ("base.js", "charts.js", "flame.js", "tables.js", "page.js")
START = "<!DOCTYPE html>"  # of what `html` returns


def html(content: dict) -> str:
    """Return the page for what `command.make` found."""
    data = {**content, "version": __version__, "roles": ROLES, "reasons": REASONS}
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)
    text = _asset("page.html")
    parts = {
        "title": markup.escape(f"{content['name']}: memory under "
                               f"{_sizes.format_size(content['budget'], exact=False)}"),
        "style": _asset("uplot.min.css") + _asset("page.css"),
        "licence": _asset("uplot.license.txt"),
        "library": _asset("uplot.min.js"),
        "script": "\n".join(_asset(name) for name in _SCRIPTS),
        "data": base64.b64encode(packed).decode(),
    }
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
