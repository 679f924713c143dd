"""Runs the C++ programs about CUDA allocators (bench/torch), on the stand-in device or a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import measure
import standin
import torch
from environments import clean_environment

# What PyTorch's own allocator is called, and its settings.
SETTINGS = {"native": "", "expandable": "expandable_segments:True"}


def stand_in_build() -> Path:
    """Return a build that has the stand-in device: it comes with the tests."""
    folders = [measure.build_folder(), *(measure.ROOT / "build").glob("*")]
    found = next((each for each in folders if (each / "fake_cuda").is_dir()), None)
    if found is None:
        sys.exit("the stand-in CUDA device is not built: run ./dev build")
    return found


def run(name: str, setting: str, *arguments: str, **knobs: standin.Knob) -> list[dict]:
    """Run a program with our plugin and PyTorch's allocator settings, on the stand-in device.

    Args:
        name: of the program, without the version of PyTorch.
        setting: PYTORCH_CUDA_ALLOC_CONF, or "".
        arguments: of the program, behind the plugin.
        knobs: of the stand-in device.

    Returns:
        The lines of JSON that it printed.
    """
    environ = standin.environment(version=torch.__version__, base=clean_environment(),
                                  build=stand_in_build(), **knobs)
    return run_in(environ, name, setting, *arguments)


def run_in(environ: Mapping[str, str], name: str, setting: str, *arguments: str) -> list[dict]:
    """Likewise on the device that this environment has."""
    version = "_".join(torch.__version__.split(".")[:2])
    # The plugin needs PyTorch's own libraries, which the program does not have.
    libraries = [str(Path(torch.__file__).parent / "lib"), environ.get("LD_LIBRARY_PATH", "")]
    environ = {**environ, "LD_LIBRARY_PATH": ":".join(filter(None, libraries))}
    if setting:
        environ["PYTORCH_CUDA_ALLOC_CONF"] = setting
    plugin = measure.package() / "tidepool" / "lib" / f"libtidepool_torch_cuda_{version}.so"
    program = measure.built(f"{name}_torch_{version}")
    done = subprocess.run([str(program), str(plugin), *arguments], env=environ, text=True,
                          stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
