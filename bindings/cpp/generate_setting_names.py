"""Write the catalog of settings as a header: generate_setting_names.py HEADER.

It comes from the Python package's list, so that a C++ program knows the same names, words and
texts; with them come the settings that go to the plugin as they are (Setting.entry).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from tidepool.settings import _catalog, _policies

LISTS = {"kKeys": _catalog.KEYS, "kReserved": _catalog.RESERVED, "kPassive": _catalog.PASSIVE,
         "kPolicies": _catalog.POLICIES, "kDevices": _catalog.DEVICES, "kRoom": _catalog.ROOM,
         "kSufficientRoom": _catalog.SUFFICIENT_ROOM, "kChaos": _catalog.CHAOS,
         "kYes": _catalog.YES, "kNo": _catalog.NO, "kNeedEviction": _catalog.NEED_EVICTION,
         "kPythonOnly": tuple(each.key for each in _catalog.SETTINGS if each.python_only)}
MAPS = {"kOldKeys": _catalog.OLD_KEYS, "kOldPolicies": _policies.OLD_POLICIES,
        "kExpected": _catalog.EXPECTED}
TEXTS = {"kDefaultPolicy": _catalog.DEFAULT_POLICY, "kNoPolicy": _catalog.NO_POLICY,
         "kAuto": _catalog.AUTO, "kArena": _catalog.ALLOCATORS[0],
         "kNative": _catalog.ALLOCATORS[1], "kRecordSize": _catalog.RECORD_SIZE}
NUMBERS = {"kReserveParts": _catalog.RESERVE_PARTS, "kLeastReserve": _catalog.LEAST_RESERVE}
HEAD = """\
// Made by bindings/cpp/generate_setting_names.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tidepool::cpp {

// A setting whose value goes to an entry of the plugin's JSON: one of `choices`, the default first;
// or, if there are none, what `value` says.
struct Entry {
  std::string key, value, entry;
  std::vector<std::string> choices;
};

"""


def _quoted(words: tuple[str, ...]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def header() -> str:
    """Return the whole header."""
    text = HEAD
    for name, values in LISTS.items():
        text += f"inline const std::vector<std::string> {name} = {{{_quoted(values)}}};\n"
    for name, pairs in MAPS.items():
        quoted = ", ".join(f'{{"{key}", "{value}"}}' for key, value in pairs.items())
        text += f"inline const std::map<std::string, std::string> {name} = {{{quoted}}};\n"
    for name, value in TEXTS.items():
        text += f'inline const std::string {name} = "{value}";\n'
    for name, number in NUMBERS.items():
        text += f"constexpr uint64_t {name} = {number};\n"
    units = ", ".join(f'{{"{unit}", {size}}}' for unit, size in _catalog.UNITS.items())
    text += f"inline const std::vector<std::pair<std::string, uint64_t>> kUnits = {{{units}}};\n"
    entries = ",\n    ".join(
        f"{{{_quoted((each.key, each.value, each.entry))}, {{{_quoted(each.choices)}}}}}"
        for each in _catalog.SETTINGS if each.entry)
    text += f"inline const std::vector<Entry> kEntries = {{\n    {entries}}};\n"
    return text + "\n}  // namespace tidepool::cpp\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(header(), encoding="utf-8")
