"""A stand-in for the plugin that notes what it is told, for jobs in processes of their own."""

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path


def python_path() -> str:
    """Return the PYTHONPATH of a job, by which it finds this module and the package under test."""
    package = importlib.util.find_spec("tidepool")
    return os.pathsep.join([str(Path(__file__).parent), str(Path(package.origin).parents[1])])


class NotingPlugin:
    """Has the functions of tidepool.job._plugin.Plugin that hooks call."""

    fails = False  # whether settling runs out of memory
    draws_are_recorded = True

    def __init__(self):
        self.calls: list[str] = []

    @contextlib.contextmanager
    def _noted(self, begin: str, end: str) -> Iterator[None]:
        self.calls.append(begin)
        try:
            yield
        finally:
            self.calls.append(end)

    @contextlib.contextmanager
    def settling(self):
        if self.fails:
            import torch

            raise torch.OutOfMemoryError("out of memory")
        with self._noted("begin", "end"):
            yield

    def keeping(self):
        return self._noted("keep", "kept")

    def region(self):
        return self._noted("enter", "leave")

    @contextlib.contextmanager
    def holding(self, storages):
        held = list(filter(None, storages))
        self.calls.extend("hold" for _ in held)
        yield
        self.calls.extend("let go" for _ in held)

    def written(self, storage):
        self.calls.append("written")

    def escape(self, storage):
        self.calls.append("escape")

    def distrust(self, name):
        self.calls.append(name)

    def routing(self, name, anew):
        return self._noted(f"route {name}", "anew" if anew else "routed")

    def wrap_own_kernels(self):
        self.calls.append("wrap")

    def rescan_operators(self):
        pass

    def note_libraries(self):
        self.calls.append("libraries")

    def note_router(self):
        self.calls.append("router")

    @contextlib.contextmanager
    def own_kernel(self):
        yield

    def note_own_kernel(self, of_pytorch):
        if of_pytorch:
            self.draws_are_recorded = False
