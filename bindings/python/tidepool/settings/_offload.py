"""The setting `offload`: where contents may go that are not in the device's memory."""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import _sizes
from ._catalog import EXPECTED


@dataclass(frozen=True)
class HostTier:
    """Page-locked memory of the host, at most so many bytes for each CUDA device."""

    capacity_bytes: int
    device = "cuda"

    def for_plugin(self) -> dict:
        """Return what the plugin reads."""
        return {"bytes": self.capacity_bytes}

    def describe(self) -> str:
        """Return it as a user writes it."""
        return f"host:{_sizes.as_argument(self.capacity_bytes)}"


@dataclass(frozen=True)
class FileTier:
    """A file without a name in a folder of a local disk, for at most so many bytes."""

    folder: str  # absolute
    capacity_bytes: int
    device = "cpu"

    def for_plugin(self) -> dict:
        """Return what the plugin reads."""
        return {"folder": self.folder, "bytes": self.capacity_bytes}

    def describe(self) -> str:
        """Return it as a user writes it."""
        return f"file:{self.folder}:{_sizes.as_argument(self.capacity_bytes)}"


@dataclass(frozen=True)
class ChainedTier:
    """Page-locked memory of the host, and a file for what finds no room in it."""

    host: HostTier
    file: FileTier
    device = "cuda"

    def for_plugin(self) -> dict:
        """Return what the plugin reads."""
        return {**self.host.for_plugin(), "below": self.file.for_plugin()}

    def describe(self) -> str:
        """Return it as a user writes it."""
        return f"{self.host.describe()},{self.file.describe()}"


Tier = HostTier | FileTier | ChainedTier


def parse(text: str) -> Tier | None:
    """Return the tier that `text` means; None if nothing is to be offloaded.

    Raises:
        ValueError: says what is wrong and what was expected, without naming the setting.
    """
    if text == "none":
        return None
    first, comma, second = text.partition(",")
    if first.startswith("host:") and comma:
        return ChainedTier(_host(first), _file(second))
    return _host(text) if text.startswith("host:") else _file(text)


def _host(text: str) -> HostTier:
    return HostTier(_capacity(text.removeprefix("host:")))


def _file(text: str) -> FileTier:
    kind, _, rest = text.partition(":")
    folder, colon, size = rest.rpartition(":")
    if kind != "file" or not colon or not folder:
        raise ValueError(f"expected {EXPECTED['WHERE:SIZE']}")
    capacity = _capacity(size)
    folder = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(folder):
        raise ValueError(f"there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"no file can be made in {folder}")
    return FileTier(folder, capacity)


def _capacity(text: str) -> int:
    capacity = _sizes.parse_size(text)
    if capacity <= 0:
        raise ValueError("expected room for more than zero bytes")
    return capacity
