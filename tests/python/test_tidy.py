"""tidy finds each kind of violation where one is planted, and nothing in a clean tree."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import tidy  # noqa: E402

LONG_BODY = "  step();\n" * 70
CLEAN = {
    "allocator/block.h":
        '#include <absl/types/span.h>\n#include "absl/hash/hash.h"\nint size();\n',
    "allocator/block.cpp": '#include "allocator/block.h"\nint size() { return 1; }\n',
    "tests/allocator/block_test.cpp":
        '#include "allocator/block.h"\n#include "tests/support/catch.h"\n',
    "tests/support/catch.h": "#include <catch2/catch.hpp>\n",
    "remat/value.h": '#include "allocator/block.h"\nstruct Value {\n' + "  int x;\n" * 80 + "};\n",
    "bindings/torch/plugin.cpp":
        '#include "remat/value.h"\n#include <ATen/ATen.h>\n#include "generated_operators.h"\n',
    "docs/design.md": "See `allocator/block.h`, `block.cpp`, [the test](../tests/support/catch.h), "
                      "`torch/version.py` and `python train.py`.\n```\n`allocator/gone.h`\n```\n",
    "build/dev/Rubbish.cpp": '#include "nowhere.h"\n',
}


def plant(root: Path, files: dict[str, str]) -> None:
    """Write files, by relative path, into a tree."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def test_clean_tree(tmp_path: Path) -> None:
    plant(tmp_path, CLEAN)
    assert tidy.check(tmp_path) == []


@pytest.mark.parametrize(("path", "text", "message"), [
    ("allocator/a.h", '#include "remat/value.h"\n', 'allocator must not include "remat/value.h"'),
    ("allocator/a.h", "#include <torch/all.h>\n", "allocator must not include <torch/all.h>"),
    ("allocator/a.h", "namespace tidepool::remat {\nint x;\n}\n",
     "namespace tidepool::remat; allocator has tidepool"),
    ("remat/plan/a.h", "namespace tidepool::plan {\nint x;\n}\n",
     "namespace tidepool::plan; remat has tidepool::remat"),
    ("allocator/a.h", "#include <nlohmann/json.hpp>\n", "must not include <nlohmann/json.hpp>"),
    ("allocator/a.h", "#  include <cuda_runtime.h>\n", "must not include <cuda_runtime.h>"),
    ("allocator/heap/a.h", '#include "allocator/search/b.h"\n', "allocator/heap must not include"),
    ("allocator/base/a.h", '#include "allocator/block.h"\n', "allocator/base must not include"),
    ("remat/policies/a.h", '#include "remat/policies/baselines/b.h"\n',
     "remat/policies must not include"),
    ("remat/a.h", '#include "bindings/torch/plugin.cpp"\n', "remat must not include"),
    ("remat/a.h", '#include "remat/plan/b.h"\n', "remat must not include"),
    ("remat/restore/a.h", '#include "remat/value.h"\n', "remat/restore must not include"),
    ("remat/simulate/a.h", '#include "remat/plan/b.h"\n', "remat/simulate must not include"),
    ("remat/plan/chain/a.h", '#include "remat/plan/search/b.h"\n', "plan/chain must not include"),
    ("remat/plan/follow/a.h", '#include "remat/plan/b.h"\n', "remat/plan/follow must not include"),
    ("remat/trace/text/a.h", '#include "remat/trace/b.h"\n', "remat/trace/text must not include"),
    ("cuda/driver/a.h", '#include "cuda/streams/b.h"\n', "cuda/driver must not include"),
    ("cuda/a.h", '#include "remat/b.h"\n', "cuda must not include"),
    ("remat/trace/a.h", '#include "remat/value.h"\n', "remat/trace must not include"),
    ("bindings/torch/storage/a.h", '#include "bindings/torch/plugin.cpp"\n',
     "bindings/torch/storage must not include"),
    ("remat/a.h", "#include <c10/core/Device.h>\n", "must not include <c10/core/Device.h>"),
    ("cuda/a.h", '#include "remat/value.h"\n', 'cuda must not include "remat/value.h"'),
    ("bindings/preload/a.c", "#include <Python.h>\n", "must not include <Python.h>"),
    ("bindings/preload/a.c", '#include "allocator/block.h"\n', "bindings/preload must not include"),
    ("tests/allocator/a.h", '#include "remat/value.h"\n', "tests/allocator must not include"),
    ("allocator/a.h", '#include "block.h"\n', "by its path from the repository's root"),
    ("allocator/a.h", '#include "allocator/gone.h"\n', '"allocator/gone.h" does not exist'),
    ("allocator/a.h", "int x;\n" * 501, "501 lines; at most 500"),
    ("bindings/a.py", "x = 1\n" * 501, "501 lines; at most 500"),
    ("allocator/a.h", "// " + "x" * 98 + "\n", "101 columns; at most 100"),
    ("bindings/a.py", "def slow():\n" + "    step()\n" * 70, "slow has 71 lines; at most 70"),
    ("bindings/a.py", "def broken(:\n", "not Python"),
    ("allocator/a.h", "namespace t {\nint slow() {\n" + LONG_BODY + "}\n}\n", "slow has 72 lines"),
    ("allocator/a.h", "class A {\n public:\n  A() : x_(1) {\n" + LONG_BODY + "  }\n};\n",
     "A has 72 lines"),
    ("allocator/a.h", "int slow(char c) {\n  if (c == '{') f(\"}\");  // }\n" + LONG_BODY + "}\n",
     "slow has 73 lines"),
    ("allocator/BadName.h", "", "'BadName.h' is not snake_case"),
    ("bindings/Odd/a.py", "", "'Odd' is not snake_case"),
    ("docs/a.md", "See `allocator/gone.h`.\n", "allocator/gone.h does not exist"),
    ("docs/a.md", "\n\nSee `gone_test.cpp`.\n", "gone_test.cpp does not exist"),
    ("docs/a.md", "[this](gone.md)\n", "link to gone.md, which does not exist"),
    ("docs/a.md", "in " + "/" + "root/thing\n", "names a machine's folder"),
    ("allocator/a.h", '// "' + "/" + 'work/thing"\n', "names a machine's folder"),
])
def test_finds_one(tmp_path: Path, path: str, text: str, message: str) -> None:
    plant(tmp_path, CLEAN | {path: text})
    found = tidy.check(tmp_path)
    assert len(found) == 1, found
    assert found[0][0] == path
    assert message in found[0][2]


def test_finds_modules_that_import_each_other(tmp_path: Path) -> None:
    package = tidy.PACKAGE
    chain = {f"{package}/{path}": text for path, text in {
        "a.py": "from .inner import b\n",
        "inner/__init__.py": "",
        "inner/b.py": "def late():\n    from .. import c\n    return c\n",
        "c.py": "import os\n",
    }.items()}
    plant(tmp_path, CLEAN | chain)
    assert tidy.check(tmp_path) == []
    plant(tmp_path, {f"{package}/c.py": "\nfrom .a import x\n"})
    assert tidy.check(tmp_path) == [
        (f"{package}/c.py", 2, f"imports {package}/a.py, which imports it")]


def test_finds_a_missing_mirrored_test(tmp_path: Path) -> None:
    plant(tmp_path, {p: t for p, t in CLEAN.items() if p != "tests/allocator/block_test.cpp"})
    missing = ("allocator/block.h", 0, "has no tests/allocator/block_test.cpp")
    assert tidy.check(tmp_path) == [missing]


def test_exemptions_excuse_and_must_be_needed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {p: t for p, t in CLEAN.items() if p != "tests/allocator/block_test.cpp"})
    monkeypatch.setattr(tidy, "NO_MIRRORED_TEST", {"allocator/block.h": "tested elsewhere"})
    assert tidy.check(tmp_path) == []
    plant(tmp_path, CLEAN)
    assert [v[0] for v in tidy.check(tmp_path)] == ["allocator/block.h"]


def test_points_at_the_line(tmp_path: Path) -> None:
    plant(tmp_path, CLEAN | {"remat/a.h": "\n\n#include <torch/all.h>\n"})
    assert [(v[0], v[1]) for v in tidy.check(tmp_path)] == [("remat/a.h", 3)]
