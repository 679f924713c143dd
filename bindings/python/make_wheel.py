"""Make one wheel with plugins for several releases of PyTorch, and check that it runs elsewhere.

    python make_wheel.py FOLDER TORCH_ROOT...

Each TORCH_ROOT is a PyTorch package (…/site-packages/torch) to build a plugin against; the running
Python needs scikit-build-core. No file of the wheel depends on a version of Python. Prints what is
wrong with the wheel, and removes it then; exit status 1 if there is anything.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "cmake"))

import needed_symbols  # noqa: E402

TAG = "py3-none-manylinux_{}_{}_x86_64".format(*needed_symbols.NEWEST["GLIBC"])
MOST_BYTES = 30 << 20
FORWARDING = {"libtidepool.so", "libtidepool_preload.so"}
PROGRAMS = FORWARDING | {"libtidepool_pluggable.so", "tidepool-replay"}
# What every Linux of that tag has, and what PyTorch has loaded before a plugin is.
ELSEWHERE = re.compile(r"(ld-linux-x86-64|libc|libm|libgcc_s|libstdc\+\+|libz|"
                       r"libtorch_cpu|libc10|libc10_cuda|libcudart)\.so[.\d]*")
EXPORTED = re.compile(r"tidepool_\w+|pthread_create|__libc_start_main")
FORWARDED = re.compile(r"_ZNK?(5torch|2at7Context|2at10TensorBase|2at5print|2at\d+toDLPack|"
                       r"3c1017set_default_dtype|3c10lsERSoRKNS_6IValue)\w+")


def make(folder: Path, build: Path, *settings: str) -> Path:
    """Make a wheel in a folder, with settings of scikit-build-core, and return its path."""
    for old in folder.glob("tidepool-*.whl"):
        old.unlink()
    options = [f"build-dir={build}", f"wheel.tags={TAG}", *settings]
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--verbose", "--no-build-isolation",
                    "--no-deps", "--wheel-dir", folder, ROOT,
                    *(word for option in options for word in ("-C", option))], check=True)
    (wheel,) = folder.glob("tidepool-*.whl")
    return wheel


def plugins_for(roots: Iterable[Path]) -> set[str]:
    """Return the names of the plugins that these PyTorch packages, with CUDA, give."""
    versions = [re.search(r"__version__ *= *'(\d+)\.(\d+)", (root / "version.py").read_text())
                for root in roots]
    return {f"libtidepool_torch_{device}{version[1]}_{version[2]}.so"
            for version in versions if version for device in ("", "cuda_")}


def read(*command: str) -> str:
    """Return what a command writes."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def of_binary(path: Path, beside: set[str]) -> Iterator[str]:
    """Yield what keeps a library or program from running on another machine, or from being small.

    Args:
        path: the file.
        beside: names of the libraries that go with it.
    """
    for symbol, version in needed_symbols.too_new(str(path)):
        yield f"needs {symbol} of {version}"
    for folder in needed_symbols.foreign_folders(str(path)):
        yield f"looks for libraries in {folder}"
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", read("readelf", "-dW", str(path))):
        if name not in beside and not ELSEWHERE.fullmatch(name):
            yield f"needs {name}, which is not in the wheel"
    if ".symtab" in read("readelf", "-SW", str(path)):
        yield "is not stripped"
    if path.name.startswith("libtidepool"):
        yield from (f"shows {name}" for name in shown(path) if not may_show(path.name, name))


def may_show(library: str, name: str) -> bool:
    """Return whether a library may show a symbol to others."""
    forwards = library in FORWARDING and FORWARDED.fullmatch(name)
    return bool(forwards or EXPORTED.fullmatch(name))


def shown(path: Path) -> list[str]:
    """Return the names of the symbols that a library shows to others."""
    return [line.split()[-1] for line in read("nm", "-D", "--defined-only", str(path)).splitlines()]


def problems(wheel: Path, plugins: set[str]) -> Iterator[str]:
    """Yield what is wrong with a wheel that should have these plugins."""
    if wheel.stat().st_size > MOST_BYTES:
        yield f"{wheel.stat().st_size} bytes: more than {MOST_BYTES >> 20} MiB"
    if not wheel.name.endswith(f"-{TAG}.whl"):
        yield f"its name does not end with the tag {TAG}"
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        metadata = next(Path(folder).glob("tidepool-*.dist-info"))
        if f"\nTag: {TAG}\n" not in (metadata / "WHEEL").read_text():
            yield f"its metadata does not have the tag {TAG}"
        for name in sorted({path.name for path in Path(folder).iterdir()}
                           - {"tidepool", metadata.name}):
            yield f"{name}: belongs neither to the package nor to its metadata"
        binaries = sorted(path for path in Path(folder, "tidepool", "lib").glob("*"))
        names = {path.name for path in binaries}
        for name in sorted((plugins | PROGRAMS) - names):
            yield f"{name}: is missing"
        for name in sorted(names - plugins):
            if name.startswith("libtidepool_torch_"):
                yield f"{name}: is of a release that was not asked for"
        for path in binaries:
            yield from (f"{path.name}: {problem}" for problem in of_binary(path, names))


def main() -> int:
    """Make the wheel that the command line asks for."""
    folder, roots = Path(sys.argv[1]), [Path(root).resolve() for root in sys.argv[2:]]
    build, plugins = ROOT / "build" / "wheel", plugins_for(roots)
    for old in (build / "lib").glob("libtidepool_torch_*.so"):
        if old.name not in plugins:
            old.unlink()
    wheel = make(folder, build,
                 f"cmake.define.TIDEPOOL_TORCH_ROOTS={';'.join(map(str, roots))}")
    found = list(problems(wheel, plugins))
    if found:
        wheel.unlink()
        print(f"{wheel.name}:", *found, sep="\n  ", file=sys.stderr)
        return 1
    print(f"{wheel}: {wheel.stat().st_size >> 10} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
