"""One installation for all tests: the package, a built shim, a plugin without PyTorch."""

import shutil
import sys

import pytest
from installation import HERE, ROOT, SOURCES, Installation, build

sys.path.insert(0, str(SOURCES.parent))


@pytest.fixture(scope="session")
def installation(tmp_path_factory) -> Installation:
    package = tmp_path_factory.mktemp("installed") / "tidepool"
    shutil.copytree(SOURCES, package, ignore=shutil.ignore_patterns("lib", "__pycache__"))
    (package / "lib").mkdir()
    preload = ROOT / "bindings" / "preload"
    build(preload / "preload.c", package / "lib" / "libtidepool_preload.so", "-fvisibility=hidden",
          "-fexceptions", f"-I{ROOT}", *(str(preload / f"{each}.c") for each in
                                         ("threads", "libtorch_calls")))
    build(HERE / "fake_plugin.c", package / "lib" / "libtidepool_torch_9_1.so")
    return Installation(package)
