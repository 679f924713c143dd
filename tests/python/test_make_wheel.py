"""Wheels: what is in them, their tags, and that what would not run elsewhere is noticed."""

import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from installation import ROOT, SOURCES, build

sys.path.append(str(SOURCES.parent))

import make_wheel

PLUGIN = "libtidepool_torch_9_1.so"
TAG = "py3-none-manylinux_2_34_x86_64"


@pytest.fixture(scope="module")
def without_libraries(tmp_path_factory) -> Path:
    """The wheel as it is made, but for what CMake builds and installs."""
    folder = tmp_path_factory.mktemp("wheel")
    return make_wheel.make(folder, folder / "build", "wheel.cmake=false")


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "shown.c").write_text("int tidepool_shown(void) { return 1; }\n")
    build(folder / "shown.c", folder / "shown.so", "-s")
    return folder / "shown.so"


@pytest.fixture
def wheel(without_libraries, library, tmp_path) -> Path:
    """A whole wheel, with small libraries in the place of the real ones."""
    made = tmp_path / without_libraries.name
    shutil.copy(without_libraries, made)
    for name in (PLUGIN, *make_wheel.PROGRAMS):
        add(made, library, name)
    return made


def add(wheel: Path, library: Path, name: str) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.write(library, f"tidepool/lib/{name}")


def test_the_package_alone_goes_into_a_wheel(without_libraries):
    assert without_libraries.name == f"tidepool-0.1.0-{TAG}.whl"
    with zipfile.ZipFile(without_libraries) as archive:
        names = set(archive.namelist())
        points = archive.read("tidepool-0.1.0.dist-info/entry_points.txt").decode()
        metadata = archive.read("tidepool-0.1.0.dist-info/METADATA").decode()
    sources = {f"tidepool/{path.relative_to(SOURCES)}" for path in SOURCES.rglob("*")
               if path.is_file() and not {"lib", "__pycache__"} & set(path.parts)}
    assert {name for name in names if not name.startswith("tidepool-0.1.0.dist-info/")} == sources
    assert "tidepool/py.typed" in names  # and no library of the source tree
    assert "tidepool = tidepool._autoload:autoload" in points
    assert "tidepool = tidepool.cli:main" in points
    assert "Requires-Dist: torch" not in metadata  # which pip would replace


def test_a_wheel_with_all_libraries_is_right(wheel):
    assert list(make_wheel.problems(wheel, {PLUGIN})) == []


def test_what_is_wrong_with_a_wheel_is_said(wheel, library, monkeypatch):
    (missing,) = make_wheel.problems(wheel, {PLUGIN, "libtidepool_torch_9_2.so"})
    assert missing == "libtidepool_torch_9_2.so: is missing"

    (unwanted,) = make_wheel.problems(wheel, set())
    assert unwanted == f"{PLUGIN}: is of a release that was not asked for"

    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/conftest.py", "")
    (stray,) = make_wheel.problems(wheel, {PLUGIN})
    assert stray.startswith("tests: belongs neither")

    renamed = wheel.rename(wheel.with_name("tidepool-0.1.0-py3-none-linux_x86_64.whl"))
    assert any("name does not end" in each for each in make_wheel.problems(renamed, {PLUGIN}))

    monkeypatch.setattr(make_wheel, "TAG", "py3-none-manylinux_2_28_x86_64")
    assert any("metadata does not" in each for each in make_wheel.problems(renamed, {PLUGIN}))

    monkeypatch.setattr(make_wheel, "MOST_BYTES", 1000)
    assert any(each.endswith("more than 0 MiB") for each in make_wheel.problems(renamed, {PLUGIN}))


@pytest.mark.parametrize("text, flags, wrong", [
    ("int tidepool_x;", (), "is not stripped"),
    ("int other;", ("-s",), "shows other"),
    ("int tidepool_x;", ("-s", "-Wl,-rpath,/home"), "looks for libraries in /home"),
    ("int pthread_create;", ("-s", "-Wl,--no-as-needed", "-lresolv"),
     "needs libresolv.so.2, which"),
])
def test_what_is_wrong_with_a_library_is_said(wheel, tmp_path, text, flags, wrong):
    (tmp_path / "library.c").write_text(text)
    build(tmp_path / "library.c", tmp_path / "library.so", *flags)
    add(wheel, tmp_path / "library.so", "libtidepool_other.so")
    (found,) = make_wheel.problems(wheel, {PLUGIN})
    assert found.startswith(f"libtidepool_other.so: {wrong}")


def test_every_pytorch_gives_a_plugin_for_each_device(tmp_path):
    (tmp_path / "version.py").write_text("__version__ = '9.1.0+cu130'\n")
    assert make_wheel.plugins_for([tmp_path]) == {PLUGIN, "libtidepool_torch_cuda_9_1.so"}


def test_libraries_show_only_the_functions_that_are_called():
    folder = ROOT / "bindings" / "python" / "tidepool" / "lib"
    libraries = list(folder.glob("libtidepool*.so"))
    assert len(libraries) >= 5
    assert [(path.name, name) for path in libraries for name in make_wheel.shown(path)
            if not make_wheel.may_show(path.name, name)] == []
