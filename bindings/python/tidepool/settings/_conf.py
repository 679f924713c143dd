"""Our keys among PyTorch's allocator settings (`PYTORCH_CUDA_ALLOC_CONF`)."""

from __future__ import annotations

import re
from collections.abc import MutableMapping

CONF_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # PyTorch prefers the first


def take_from_conf(environ: MutableMapping[str, str]) -> None:
    """Move our keys out of PyTorch's allocator settings into TIDEPOOL_* variables.

    What the preload shim does before Python starts; here for processes without it. PyTorch fails
    on a backend it does not know, so this runs even if the settings turn out to be wrong.
    """
    for variable in CONF_VARIABLES:
        text = environ.get(variable, "")
        if "tidepool" not in text:
            continue
        kept = []
        for key, value, item in items_of(text):
            if key == "backend" and value == "tidepool":
                environ.setdefault("TIDEPOOL_BACKEND", value)
            elif key.startswith("tidepool_"):
                environ.setdefault(key.upper(), value)
            else:
                kept.append(item)
        if kept:
            environ[variable] = ",".join(kept)
        else:
            del environ[variable]


def items_of(text: str) -> list[tuple[str, str, str]]:
    """Return the items of PyTorch's allocator settings: key, value, and the item as written."""
    items = re.findall(r"(?:\[[^\]]*\]|[^,\[])+", text)
    parts = (item.partition(":") for item in items)
    return [(key.strip(), value.strip(), item)
            for (key, _, value), item in zip(parts, items, strict=True)]
