"""For all Python tests: no settings of whoever runs them; what takes long, only in --full; in a
shard, only its part of them; long files first; tables at the end."""

import os

import environments
import pytest
import selection

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the default device is the CPU also where a GPU is
for _name in os.environ.keys() - environments.clean_environment().keys():
    del os.environ[_name]

# The files that take longest, in that order: processes take a file at a time, and the one that took
# a long one last would keep the others waiting.
LONG = ("test_training", "test_same_results", "test_verified_jobs", "test_ways_in",
        "test_databases", "test_cuda_rematerialization", "test_values", "test_refusals",
        "test_out_of_memory", "test_faces", "test_pluggable", "test_loader_batches", "test_device",
        "test_limits", "test_cuda_ways_in", "test_instruments")


def pytest_configure(config):
    config.tidepool_summary = {}


def pytest_collection_modifyitems(config, items):
    here = [item for item in items
            if (selection.FULL or not item.get_closest_marker("long"))
            and (item.get_closest_marker("every_shard") or selection.is_in_shard(item.nodeid))]
    config.hook.pytest_deselected(items=[item for item in items if item not in here])
    items[:] = sorted(here, key=lambda item: LONG.index(item.path.stem)
                      if item.path.stem in LONG else len(LONG))


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
