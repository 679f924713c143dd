"""Where settings come from agrees with what they are resolved to."""

from tidepool.settings import _catalog, _conf, _origins, _settings


def by_key(environ):
    return {origin.key: origin for origin in _origins.origins(environ)}


def test_the_source_that_is_named_is_the_one_that_counts():
    environ = {"TIDEPOOL_BUDGET": "2GiB", "TIDEPOOL_STATS": " ",
               "TIDEPOOL_PAGE": "1MiB",
               "TIDEPOOL_HANDLE": "64KiB",  # an old name
               "PYTORCH_ALLOC_CONF": "tidepool_budget:1GiB,tidepool_policy:coop",
               "PYTORCH_CUDA_ALLOC_CONF": "tidepool_policy:lru,expandable_segments:True"}
    found = by_key(environ)
    assert tuple(found) == _catalog.KEYS
    assert found["budget"] == _origins.Origin("budget", "2GiB", "TIDEPOOL_BUDGET",
                                              (("PYTORCH_ALLOC_CONF", "1GiB"),))
    assert found["policy"].overridden == (("PYTORCH_CUDA_ALLOC_CONF", "lru"),)
    assert (found["page"].value, found["page"].source) == ("64KiB", "TIDEPOOL_HANDLE")
    assert found["page"].overridden == (("TIDEPOOL_PAGE", "1MiB"),)
    assert (found["stats"].value, found["chaos"].source) == ("none", "default")
    _conf.take_from_conf(environ)
    settings = _settings.resolve({}, environ)
    assert (settings.budget_bytes, settings.policy) == (2**31, found["policy"].value)
    assert settings.entries["page_bytes"] == 65536
