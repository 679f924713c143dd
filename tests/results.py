"""What the tests said in JUnit files: results.py count FILE STATUS, or failures FILE...

`count` prints how many tests passed and how many failed. A part that ended with another status than
0, or that ran no test at all, counts as a failure whatever it wrote. `failures` prints the names of
the tests that failed, each with the end of what it said.
"""

import sys
import xml.etree.ElementTree as xml
from pathlib import Path

LINES = 25  # of what a failed test said


def failure(case: xml.Element) -> xml.Element | None:
    """Return what a test case says of its failure, if it failed."""
    return next((child for child in case if child.tag in ("failure", "error")), None)


def count(path: str, status: str) -> tuple[int, int]:
    """Return how many tests passed and how many failed."""
    passed = failed = 0
    try:
        for case in xml.parse(path).iter("testcase"):
            if failure(case) is not None:
                failed += 1
            elif case.find("skipped") is None:
                passed += 1
    except (OSError, xml.ParseError):
        passed = int(status == "0")
    if (status != "0" and failed == 0) or passed + failed == 0:
        failed += 1
    return passed, failed


def print_failures(paths: list[str]) -> None:
    """Print the failed tests of some files; what cannot be read has none."""
    for path in paths:
        try:
            cases = list(xml.parse(path).iter("testcase"))
        except (OSError, xml.ParseError):
            continue
        for case in cases:
            said = failure(case)
            if said is None:
                continue
            name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
            print(f"FAILED in {Path(path).stem}: {name}")
            text = said.text or case.findtext("system-out") or said.get("message") or ""
            for line in text.splitlines()[-LINES:]:
                print(f"    {line}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["count", path, status]:
            print(*count(path, status))
        case ["failures", *paths]:
            print_failures(paths)
        case _:
            sys.exit(__doc__)
