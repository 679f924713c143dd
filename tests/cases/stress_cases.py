"""Long runs, for ./dev test --full."""

import gc

import tidepool
from concurrency_cases import in_threads, train


def case_four_threads_train_for_long():
    """Four threads, a thousand steps each; nothing is left over at the end."""
    def count():
        gc.collect()
        devices = tidepool.stats()["devices"]
        return [devices["cpu"][key] for key in ("values", "records", "storages")] if devices else []

    before = count()
    results = in_threads(lambda k: [float(x.sum()) for part in train(k, 1000) for x in part], 4)
    return results, count() == before
