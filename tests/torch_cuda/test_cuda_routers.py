"""What PyTorch puts before its own kernels, in Python, does not keep what these make."""

import pytest
from test_cuda_rematerialization import AMPLE, DEVICE, ENVIRON, EVICTED


@pytest.mark.parametrize("ours", [{"budget": AMPLE}, {"enabled": AMPLE}], ids=["run", "enable"])
def test_products_can_leave(jobs, ours):
    plain = jobs.json("router_jobs.py", environ=ENVIRON, **DEVICE)["products"]
    enabled = [ours["enabled"]] if "enabled" in ours else []
    found = jobs.json("router_jobs.py", *enabled, budget=ours.get("budget"), environ=ENVIRON,
                      **DEVICE)["products"]
    assert found["states"] == [EVICTED] * 8
    assert found["prints"] == plain["prints"]
    assert found["races"] == []
