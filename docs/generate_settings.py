"""Write docs/settings.md from the package's list of settings: python3 docs/generate_settings.py."""

import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "settings.md"
sys.path.insert(0, str(ROOT / "bindings" / "python"))

from tidepool.settings import _catalog  # noqa: E402

HEAD = """\
# Settings

<!-- Made by docs/generate_settings.py from bindings/python/tidepool/settings/_catalog.py. -->

An option or argument wins over a variable, a variable over a key in `PYTORCH_ALLOC_CONF` or
`PYTORCH_CUDA_ALLOC_CONF`: the key `tidepool_name` stands for the variable `TIDEPOOL_NAME`. Settings
are read once, at `import torch` or `tidepool.enable()`; where none has asked for Tidepool by then,
once more when CUDA starts. A wrong one is refused with what was given, what was expected, and the
nearest valid spelling.
"""


def entry(setting: _catalog.Setting) -> str:
    """Return what the page says of one setting."""
    said = setting.more if setting.switch else f"{setting.help}. {setting.more}"
    ways = [f"`{command} {setting.option}`" for command in setting.commands]
    if "run" in setting.commands and not setting.switch:
        ways.append(f"`enable({setting.key}=)`")
    ways.append(f"`{_catalog.PREFIX}{setting.key.upper()}`")
    default = f"; default: {setting.default}" if setting.default else ""
    given = f"Value: {setting.value}{default}. Given by {', '.join(ways)}."
    paragraphs = [textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
                  for text in (said[0].upper() + said[1:].strip(), given)]
    return "\n".join(["", f"## {setting.key}", "", paragraphs[0], "", paragraphs[1], ""])


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(map(entry, _catalog.SETTINGS))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
