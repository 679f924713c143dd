"""One installation for all tests: the package, a built shim, a plugin without PyTorch."""

import os
import shutil
import sys

import pytest
from installation import HERE, ROOT, SOURCES, Installation, build

sys.path.insert(0, str(SOURCES.parent))
for _name in [name for name in os.environ if name.startswith("TIDEPOOL_")]:
    if _name not in ("TIDEPOOL_FULL", "TIDEPOOL_SHARD"):  # which selection.py reads
        del os.environ[_name]  # settings of whoever runs the tests
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the default device is the CPU also where a GPU is


@pytest.fixture(scope="session")
def installation(tmp_path_factory) -> Installation:
    package = tmp_path_factory.mktemp("installed") / "tidepool"
    shutil.copytree(SOURCES, package, ignore=shutil.ignore_patterns("lib", "__pycache__"))
    (package / "lib").mkdir()
    build(ROOT / "bindings" / "preload" / "preload.c", package / "lib" / "libtidepool_preload.so",
          "-fvisibility=hidden")
    build(HERE / "fake_plugin.c", package / "lib" / "libtidepool_torch_9_1.so")
    return Installation(package)
