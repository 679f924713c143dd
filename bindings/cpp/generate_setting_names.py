"""Write the names of settings as a header: generate_setting_names.py HEADER.

They come from the Python package's list, so that a C++ program knows the same ones.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from tidepool.settings import _settings

LISTS = {"kKeys": _settings.KEYS, "kReserved": _settings.RESERVED, "kPassive": _settings.PASSIVE,
         "kPolicies": _settings.POLICIES, "kDevices": _settings.DEVICES, "kRoom": _settings.ROOM,
         "kPlanning": _settings.PLANNING, "kAllocators": _settings.ALLOCATORS}
MAPS = {"kOldKeys": _settings.OLD_KEYS, "kOldPolicies": _settings.OLD_POLICIES,
        "kLimits": _settings.LIMITS}
HEAD = """\
// Made by bindings/cpp/generate_setting_names.py.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tidepool::cpp {

"""


def header() -> str:
    """Return the whole header."""
    text = HEAD
    for name, values in LISTS.items():
        quoted = ", ".join(f'"{value}"' for value in values)
        text += f"inline const std::vector<std::string> {name} = {{{quoted}}};\n"
    for name, pairs in MAPS.items():
        quoted = ", ".join(f'{{"{key}", "{value}"}}' for key, value in pairs.items())
        text += f"inline const std::map<std::string, std::string> {name} = {{{quoted}}};\n"
    return text + "\n}  // namespace tidepool::cpp\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(header(), encoding="utf-8")
