"""Run Python jobs on the stand-in CUDA device, and steer it from inside one.

Outside: `run([...], devices=2)` or `environment(...)` for a command of one's own. Inside a job:
`Device()`. The knobs are the FAKE_CUDA_* variables of tests/support/fake_cuda/core/settings.h, in
small letters: devices=2, memory="80GiB", touch=False, late=3 or late="asked", fail="map:3", …
Values on the device are garbage and its times are virtual: never call its numbers GPU results.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
LIBRARIES = ("libcudart.so.13", "libfake_cuda_math.so", "libcuda.so.1", "libnvidia-ml.so.1",
             "libfake_nccl.so")
PREFIX = "FAKE_CUDA_"
TIMEOUT_SECONDS = 600

Knob = str | int | bool


def libraries(version: str | None = None, build: Path = BUILD) -> list[Path]:
    """Return the libraries to preload.

    Args:
        version: of PyTorch, "2.15" or longer; that of this Python's where it is None.
        build: the folder that CMake built in.

    Raises:
        FileNotFoundError: the stand-in device was not built for this version.
    """
    major, minor = (version or importlib.metadata.version("torch")).split(".")[:2]
    folder = build / "fake_cuda" / f"torch_{major}_{minor}"
    paths = [folder / name for name in LIBRARIES]
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path}: run `./dev build` first")
    return paths


def environment(version: str | None = None, base: Mapping[str, str] = os.environ,
                build: Path = BUILD, **knobs: Knob) -> dict[str, str]:
    """Return the environment in which a job sees the stand-in device.

    Args:
        version: as for libraries().
        base: what to start from. Its LD_PRELOAD is kept, behind ours; its settings for CUDA and
            the stand-in device are dropped.
        build: as for libraries().
        knobs: settings of the device; True and False mean 1 and 0.
    """
    made = {name: value for name, value in base.items()
            if not name.startswith(PREFIX) and name != "CUDA_VISIBLE_DEVICES"}
    preloaded = [str(path) for path in libraries(version, build)]
    if base.get("LD_PRELOAD"):
        preloaded.append(base["LD_PRELOAD"])
    made["LD_PRELOAD"] = " ".join(preloaded)
    for name, value in knobs.items():
        made[PREFIX + name.upper()] = str(int(value) if isinstance(value, bool) else value)
    return made


def run(arguments: Sequence[str | os.PathLike[str]], environ: Mapping[str, str] | None = None,
        **knobs: Knob) -> subprocess.CompletedProcess[str]:
    """Run this Python with arguments on the stand-in device, to its end, and return its output.

    Args:
        arguments: of the Python: a script and its arguments, or "-c" and a program.
        environ: variables to add.
        knobs: as for environment().
    """
    made = {"OMP_NUM_THREADS": "1", **environment(**knobs), **(environ or {})}
    return subprocess.run([sys.executable, *map(str, arguments)], env=made, text=True,
                          capture_output=True, timeout=TIMEOUT_SECONDS)


class Device:
    """Steers and inspects the stand-in device of this process (tests/support/fake_cuda/control.h).

    Streams are given as PyTorch's `stream.cuda_stream`: a number, 0 for the default stream.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
        for name in ("calls", "failures", "host_time_ns", "host_waited_ns", "stream_time_ns",
                     "stream_stalled_ns"):
            self._function(name).restype = ctypes.c_uint64
        for name in ("used_bytes", "used_peak_bytes", "live", "count"):
            self._function(name).restype = ctypes.c_size_t

    def _function(self, name: str):
        return getattr(self._library, f"fake_cuda_{name}")

    def set(self, **knobs: Knob) -> None:
        """Change settings. `fail` counts calls from now, and adds to earlier ones."""
        for name, value in knobs.items():
            text = str(int(value) if isinstance(value, bool) else value)
            if self._function("set")(name.upper().encode(), text.encode()) != 0:
                raise ValueError(f"{name}={value}")

    def clear_failures(self) -> None:
        """Let no call fail any more."""
        self._function("clear_failures")()

    def calls(self, kind: str) -> int:
        """Return how many calls of a kind there were."""
        return self._known(self._function("calls")(kind.encode()), kind)

    def failures(self, kind: str) -> int:
        """Return how many calls of a kind were made to fail."""
        return self._known(self._function("failures")(kind.encode()), kind)

    def live(self, what: str) -> int:
        """Return how many streams, events, graphs, allocations, mappings, … are alive."""
        return self._known(self._function("live")(what.encode()), what)

    def used_bytes(self, device: int = 0) -> int:
        """Return how much of a device's memory is in use."""
        return self._function("used_bytes")(device)

    def used_peak_bytes(self, device: int = 0) -> int:
        """Return how much of a device's memory was in use at most."""
        return self._function("used_peak_bytes")(device)

    def host_time_ns(self) -> int:
        """Return the virtual time of the host."""
        return self._function("host_time_ns")()

    def host_waited_ns(self) -> int:
        """Return how much of the host's virtual time it has waited for devices."""
        return self._function("host_waited_ns")()

    def stream_time_ns(self, stream: int = 0) -> int:
        """Return the virtual time at which a stream will have done its work."""
        return self._function("stream_time_ns")(ctypes.c_void_p(stream))

    def stream_stalled_ns(self, stream: int = 0) -> int:
        """Return how long a stream had work, and waited for other streams."""
        return self._function("stream_stalled_ns")(ctypes.c_void_p(stream))

    def complete(self, stream: int) -> None:
        """Let the device finish what is enqueued on a stream."""
        self._function("complete")(ctypes.c_void_p(stream))

    def races(self) -> list[str]:
        """Return the races found so far."""
        return self._entries("races")

    def misuses(self) -> list[str]:
        """Return the calls so far that CUDA would refuse."""
        return self._entries("misuses")

    def log(self) -> list[str]:
        """Return the newest operations."""
        return self._entries("log")

    def forget(self, name: str) -> None:
        """Empty a list: "races" or "misuses"."""
        self._function("forget")(name.encode())

    def allocated(self, start: int, size_bytes: int, stream: int = 0) -> None:
        """Declare a range handed out for a stream."""
        self._function("range_allocated")(ctypes.c_void_p(start), ctypes.c_size_t(size_bytes),
                                          ctypes.c_void_p(stream))

    def shared(self, start: int, stream: int) -> None:
        """Declare that a range may be used on another stream until it is freed."""
        self._function("range_shared")(ctypes.c_void_p(start), ctypes.c_void_p(stream))

    def used(self, start: int, size_bytes: int, stream: int = 0) -> None:
        """Declare a range used by the newest operation of a stream."""
        self._function("range_used")(ctypes.c_void_p(start), ctypes.c_size_t(size_bytes),
                                     ctypes.c_void_p(stream))

    def freed(self, start: int) -> None:
        """Declare a range given back."""
        self._function("range_freed")(ctypes.c_void_p(start))

    def watch_allocator(self) -> None:
        """Declare all that PyTorch's CUDA allocator hands out from now on, and takes back.

        Needs CUDA to be initialised. For uses that the allocator does not see, add an OperandWatch.
        """
        self._of_torch().fake_cuda_watch_allocator()

    def recurrent_layer_begins(self, device: int = 0) -> bool:
        """Ask the default generator what a recurrent layer asks; return if its state is made anew.

        PyTorch's layers with dropout keep a state of cuDNN's that draws go on from, until somebody
        sets the generator.
        """
        return bool(self._of_torch().fake_cuda_recurrent_layer_begins(device))

    @staticmethod
    def _of_torch() -> ctypes.CDLL:
        loaded = Path("/proc/self/maps").read_text().split()
        folder = next(Path(path).parent for path in loaded if path.endswith("/libcuda.so.1"))
        return ctypes.CDLL(str(folder / "libfake_cuda_watch.so"))

    def _entries(self, name: str) -> list[str]:
        text = ctypes.create_string_buffer(1024)
        found = []
        for index in range(self._function("count")(name.encode())):
            self._function("entry")(name.encode(), ctypes.c_size_t(index), text,
                                    ctypes.c_size_t(len(text)))
            found.append(text.value.decode())
        return found

    @staticmethod
    def _known(count: int, name: str) -> int:
        if count == 2**64 - 1:
            raise ValueError(f"the stand-in device knows no '{name}'")
        return count
