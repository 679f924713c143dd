"""Cases that go wrong in known ways: they show that the database jobs notice."""

import os
from collections.abc import Callable, Iterator

import torch
from comparison import Case


def groups(full: bool, dtypes: list[str] | None) -> Iterator[tuple[str, Callable]]:
    """Yield one group for each way of going wrong."""
    yield "differs", lambda: third_time(lambda: torch.ones(3).nextafter(torch.tensor(2.0)))
    yield "raises", lambda: third_time(lambda: torch.ones(3) @ torch.ones(4))
    yield "differs_from_itself", lambda: iter(
        [Case("random", lambda: torch.randn(3, generator=unseeded()))])
    yield "dies", lambda: third_time(os.abort)
    yield "agrees", lambda: iter([Case("chain", lambda: (torch.ones(3) * 2).exp() + 1)])


def unseeded() -> torch.Generator:
    """Return a generator that no run repeats."""
    generator = torch.Generator()
    generator.seed()
    return generator


def third_time(wrong: Callable) -> Iterator[Case]:
    """Yield a case that is right twice, which is without Tidepool, and then wrong."""
    runs = []

    def run():
        runs.append(1)
        return wrong() if len(runs) == 3 else torch.ones(3)

    yield Case("third", run)
