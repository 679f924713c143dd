"""For all Python tests: in a shard, only its part of them."""

import selection


def pytest_collection_modifyitems(config, items):
    here = [item for item in items
            if item.get_closest_marker("every_shard") or selection.is_in_shard(item.nodeid)]
    config.hook.pytest_deselected(items=[item for item in items if item not in here])
    items[:] = here
