"""Write the package's names of policies: python3 bindings/python/generate_policies.py [--check].

They come from the table of policies in remat/, which is the one list of them; the package knows the
names where no library is loaded yet. With --check nothing is written: it fails if they differ.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "remat" / "policies" / "table" / "policy_table.cpp"
NAMES = ROOT / "bindings" / "python" / "tidepool" / "settings" / "_policies.py"
TEXT = '''\
"""The names of policies, made by {script}.

They come from {table}.
"""

OWN_POLICIES = {own}
# Published ones, for comparison.
BASELINES = {baselines}
# Names that policies had before: what they are called now.
OLD_POLICIES = {old}
'''


class TableError(ValueError):
    """The table is not written as this script reads it."""


def part(source: str, begin: str) -> str:
    """Return the lines of an array of the table."""
    found = re.search(re.escape(begin) + r"\[\] = \{(.*?)\};\n", source, re.DOTALL)
    if found is None:
        raise TableError(f"{TABLE} has no array {begin}[]")
    return found[1]


def words(names: list[str]) -> str:
    """Return a tuple of names in Python, one on each line."""
    return "(\n" + "".join(f'    "{name}",\n' for name in names) + ")"


def text(source: str) -> str:
    """Return the module of names that belongs to the text of a table.

    Raises:
        TableError: names are missing where they are looked for.
    """
    own = re.findall(r'^    \{"([^"]+)"', part(source, "kOwnPolicies"), re.MULTILINE)
    baselines = re.findall(r'^    \{"([^"]+)"', part(source, "kBaselines"), re.MULTILINE)
    old = re.findall(r'\{"([^"]+)", "([^"]+)"\}', part(source, "kOldNames"))
    if not own or not baselines or not old:
        raise TableError(f"{TABLE}: an array has no names")
    pairs = ", ".join(f'"{before}": "{now}"' for before, now in old)
    return TEXT.format(table=TABLE.relative_to(ROOT), own=words(own), old=f"{{{pairs}}}",
                       script=Path(__file__).resolve().relative_to(ROOT),
                       baselines=words(baselines))


def main() -> int:
    """Write the module, or say whether it is current."""
    wanted = text(TABLE.read_text(encoding="utf-8"))
    if "--check" not in sys.argv[1:]:
        NAMES.write_text(wanted, encoding="utf-8")
    elif NAMES.read_text(encoding="utf-8") != wanted:
        print(f"{NAMES.relative_to(ROOT)} is not that of the table: "
              f"run python3 {Path(__file__).resolve().relative_to(ROOT)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
