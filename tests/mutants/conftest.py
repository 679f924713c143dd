"""Names the mutants that nothing has noticed at the end of a run."""

import pytest

_survivors: list[str] = []


@pytest.fixture(scope="session")
def survivors():
    """Take the names of mutants that survive."""
    return _survivors


def pytest_terminal_summary(terminalreporter):
    if _survivors:
        terminalreporter.write_sep("=", "mutants that survive")
        terminalreporter.write_line(" ".join(sorted(_survivors)))
