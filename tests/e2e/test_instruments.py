"""The instruments on real jobs: what `doctor` says where PyTorch is."""

import json
import sys

import harness
import pytest


@pytest.mark.torch_floor
def test_this_installation_is_healthy():
    done = harness.run([sys.executable, "-m", "tidepool", "doctor", "--json"])
    facts = json.loads(done.stdout)
    assert done.returncode == 0, facts["findings"]
    on_cpu = facts["devices"]["cpu"]
    assert on_cpu["attached"]["evictions"] > 50 and on_cpu["attached"]["replays"] > 50
    assert on_cpu["inspect"]["results"] == on_cpu["attached"]["results"]
