"""Lets PyTorch's databases be imported where there is no NumPy.

They import it for references that we never ask, and for two operators' samples, which then cannot
be made. Every name of it stands for a class that can be called, compared and indexed, and is
nothing.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import math
import sys
import types


class _Anything(type):
    """The class of what every name stands for."""

    def __getattr__(cls, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _named(f"{cls.__name__}.{name}")

    def __call__(cls, *_, **__):
        return _named(f"{cls.__name__}()")

    def __getitem__(cls, _):
        return cls

    def __or__(cls, _):
        return cls

    __ror__ = __or__

    def __ge__(cls, _):
        return True  # a version is new enough

    def __lt__(cls, _):
        return False

    def __neg__(cls):
        return cls

    def __iter__(cls):
        return iter(())


def _named(name: str) -> type:
    return _Anything(name, (), {})


class _Module(types.ModuleType):
    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        value = _named(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "numpy":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module) -> None:
        module.__version__ = "1.26.0"
        if module.__name__ == "numpy":
            module.inf, module.nan, module.pi, module.e = math.inf, math.nan, math.pi, math.e


def import_databases() -> None:
    """Make an import of NumPy succeed from now on, if there is none."""
    if importlib.util.find_spec("numpy") is not None:
        return
    import torch._dynamo  # noqa: F401  knows how to do without, and is not to take this for it

    sys.meta_path.append(_Finder())
