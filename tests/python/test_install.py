"""What `cmake --install` installs is enough for C++ programs."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
CONSUMER = ROOT / "tests" / "install"


def cmake(*arguments) -> None:
    done = subprocess.run(["cmake", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_programs_are_built_with_the_installed_package(tmp_path):
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    cmake("--install", BUILD, "--prefix", prefix, "--component", "development")
    headers = prefix / "include" / "tidepool"
    assert (headers / "allocator" / "budgeted_allocator.h").is_file()
    assert not any((headers / "remat" / folder).exists() for folder in ("plan", "replay", "trace"))
    assert not list(headers.rglob("*.cpp"))
    # The component `program` has it, with all plugins.
    (prefix / "lib" / "libtidepool.so").symlink_to(BUILD / "lib" / "libtidepool.so")

    cmake("-S", CONSUMER, "-B", build, "-G", "Ninja", "-D", f"Tidepool_ROOT={prefix}")
    cmake("--build", build)
    commands = (build / "build.ninja").read_text()
    assert str(prefix) in commands and str(ROOT / "allocator") not in commands
    assert subprocess.run([build / "consumer"]).returncode == 0
    done = subprocess.run([build / "program"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
