"""The tests of limits start their jobs from a clean environment."""

import os

for _name in [name for name in os.environ if name.startswith("TIDEPOOL_")]:
    if _name != "TIDEPOOL_FULL":
        del os.environ[_name]  # settings of whoever runs the tests
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the default device is the CPU also where a GPU is
