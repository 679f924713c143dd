"""Lists at the end of a run what has noticed each mutant, and names those that survive."""

import pytest

_noticed: dict[str, str | None] = {}


@pytest.fixture(scope="session")
def noticed():
    """Take what has noticed a mutant, by its name; None: nothing, it survives."""
    return _noticed


def pytest_terminal_summary(terminalreporter):
    if _noticed:
        terminalreporter.write_sep("=", "what notices which mutant")
        for name, how in sorted(_noticed.items()):
            terminalreporter.write_line(f"{name:<22} {how or 'SURVIVES'}")
    survivors = [name for name, how in sorted(_noticed.items()) if how is None]
    if survivors:
        terminalreporter.write_sep("=", "mutants that survive")
        terminalreporter.write_line(" ".join(survivors))
