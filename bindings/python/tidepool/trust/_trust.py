"""Which of the job's own operators may be replayed: what the plugin asks at their first call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from . import _trust_file
from ._operator_source import OperatorSources

TRUSTED = "trusted"


class Trust:
    """Answers the plugin's questions. Thread safe: each answer is one assignment."""

    def __init__(self, checked: Mapping[str, _trust_file.Checked], replay: tuple[str, ...],
                 keep: tuple[str, ...], sources: OperatorSources,
                 say: Callable[[str], None]) -> None:
        self._checked = checked
        self._replay, self._keep = replay, keep
        self._sources = sources
        self._say = say
        self.verdicts: dict[str, str] = {}  # by operator: TRUSTED, or why it is kept

    def judge(self, operator: str, library: str, tells_all: bool) -> bool:
        """Return whether an operator may be replayed.

        Args:
            library: the library of its kernel; "" if that is not known.
            tells_all: whether its schema says that it writes nothing and returns fresh tensors.
        """
        if self._sources.is_of_torch(library):
            return False
        try:
            kept = self._reason_to_keep(operator, library, tells_all)
        except Exception as error:  # it is called by C++
            kept = f"{type(error).__name__}: {error}"
        self.verdicts[operator] = f"kept: {kept}" if kept else TRUSTED
        return not kept

    def namespaces(self) -> set[str]:
        """Return the namespaces that have trusted operators."""
        return {name.partition("::")[0] for name, verdict in list(self.verdicts.items())
                if verdict == TRUSTED}

    def uncalled(self) -> list[str]:
        """Return the operators that were named to be replayed or kept, and that nobody asked of."""
        return [name for name in (*self._replay, *self._keep)
                if not any(_names((name,), operator) for operator in list(self.verdicts))]

    def _reason_to_keep(self, operator: str, library: str, tells_all: bool) -> str:
        if _names(self._keep, operator):
            return "keep"
        wanted = _names(self._replay, operator)
        found = self._checked.get(operator)
        if not tells_all:
            reason = "by its schema it writes, draws, or gives what cannot be made again"
            return self._said(operator, reason) if wanted else reason
        if wanted:
            return ""
        if found is None:
            return "not checked"
        if found.reason:
            return found.reason
        source, digest = self._sources.describe(operator, library)
        if digest != found.digest:
            reason = f"{source or 'what defines it'} is not what was checked ({found.source})"
            return self._said(operator, reason)
        return ""

    def _said(self, operator: str, reason: str) -> str:
        with contextlib.suppress(Exception):
            self._say(f"{operator} is kept: {reason}")
        return reason


def _names(given: tuple[str, ...], operator: str) -> bool:
    """Return whether an operator is among those given, which may leave out the overload."""
    return operator in given or operator.partition(".")[0] in given


def load(path: str | None, torch_version: str,
         say: Callable[[str], None]) -> dict[str, _trust_file.Checked]:
    """Return what a trust file says of operators: nothing if it is of another PyTorch.

    Raises:
        TrustFileError: it is no trust file, or a damaged one.
    """
    if path is None:
        return {}
    version, checked = _trust_file.read(Path(path))
    if version == torch_version:
        return checked
    say(f"{path} was made with PyTorch {version}, not {torch_version}: no operator is trusted")
    return {}
