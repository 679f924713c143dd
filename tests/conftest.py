"""For all Python tests: in a shard, only its part of them; tables at the end of a run."""

import pytest
import selection


def pytest_configure(config):
    config.tidepool_summary = {}


def pytest_collection_modifyitems(config, items):
    here = [item for item in items
            if item.get_closest_marker("every_shard") or selection.is_in_shard(item.nodeid)]
    config.hook.pytest_deselected(items=[item for item in items if item not in here])
    items[:] = here


@pytest.fixture(scope="session")
def summary(request):
    """Take lines to print under a title after all tests, whichever process ran the test."""
    def add(title: str, *lines: str) -> None:
        request.config.tidepool_summary.setdefault(title, []).extend(lines)

    return add


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist
        session.config.workeroutput["summary"] = session.config.tidepool_summary


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for title, lines in getattr(node, "workeroutput", {}).get("summary", {}).items():
        node.config.tidepool_summary.setdefault(title, []).extend(lines)


def pytest_terminal_summary(terminalreporter, config):
    for title, lines in config.tidepool_summary.items():
        terminalreporter.write_sep("=", title)
        for line in lines:
            terminalreporter.write_line(line)
