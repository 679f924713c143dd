"""clang-tidy, as `./dev lint --tidy` runs it, reports state that is touched without its lock."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLANG_TIDY = ROOT / ".venv-lint/bin/clang-tidy"
LOCK = re.compile(r"^ *const (Mutex|Parent)Lock .*\n", re.MULTILINE)

pytestmark = pytest.mark.skipif(not CLANG_TIDY.exists(), reason="./dev lint was never run")


def findings(source: Path) -> list[str]:
    """Return what clang-tidy says of one source file about locks."""
    done = subprocess.run(
        [CLANG_TIDY, "--quiet", f"--config-file={ROOT}/.clang-tidy", source,
         "--", "-std=c++20", f"-I{ROOT}", "-DFMT_HEADER_ONLY"],
        capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if "thread-safety" in line or
            "clang-diagnostic-error" in line]


@pytest.mark.parametrize(("path", "state"), [
    ("allocator/space/simulated_space.cpp", "ledger_"),
    ("cuda/streams/events.cpp", "idle_"),
    ("remat/record/trace_recorder.cpp", "waiting"),  # the lock is another object's
    ("remat/record/work_ring.cpp", "blocks_"),
    ("remat/tier/file_tier.cpp", "counts_"),
    ("bindings/pluggable/graph_pools.cpp", "captures_"),
])
def test_a_missing_lock_is_reported(path: str, state: str, tmp_path: Path) -> None:
    """Leaving out every lock of a file is reported for its state, and the file as it is clean."""
    assert findings(ROOT / path) == []
    unlocked, count = LOCK.subn("", (ROOT / path).read_text())
    assert count > 0
    planted = tmp_path / Path(path).name
    planted.write_text(unlocked)
    assert any(f"'{state}' requires holding mutex" in line for line in findings(planted))
