"""Storages that only Python holds: whoever takes their bytes away needs Python's lock for it."""

import sys
from pathlib import Path

import harness
import pytest
import torch

VERSION = "_".join(torch.__version__.split(".")[:2])
LIBRARIES = Path(__file__).resolve().parents[3] / "build" / "dev" / "tests" / "cases"

STORAGES = """
import threading
import torch

torch.set_num_threads(1)
ended = threading.Event()

def allocate():  # with Python's lock held, and so waits for the device's
    while not ended.is_set():
        for _ in range(50):
            torch.tensor([1.0, 2.0, 3.0])

thread = threading.Thread(target=allocate, daemon=True)
thread.start()
x = torch.randn(10000)
for _ in range(4):
    storages = [(x * float(k + 1)).untyped_storage() for k in range(1500)]
ended.set()
thread.join()
read = [torch.empty(0).set_(each) for each in storages[::100]]
print(all(torch.equal(each, x * float(100 * k + 1)) for k, each in enumerate(read)))
"""


@pytest.mark.torch_floor
def test_threads_that_have_pythons_lock_do_not_wait_with_it():
    done = harness.run([*harness.attached("32MiB"), sys.executable, "-c", STORAGES], seconds=120)
    assert done.stdout.split() == ["True"], done.stderr
    assert " 0 evictions" not in done.stderr


WAYS = """
import copy
import io
import pickle
import tidepool
import torch

COUNT = 16 << 20
piece = torch.arange(COUNT // 64, dtype=torch.int32)  # a sixteenth
file = io.BytesIO()
torch.save(piece, file, _use_new_zipfile_serialization=False)

def loaded():
    file.seek(0)
    return torch.load(file)

WAYS = {
    "sized": lambda: torch.UntypedStorage(COUNT),
    "resized": lambda: torch.UntypedStorage().resize_(COUNT),
    "typed": lambda: torch.storage.TypedStorage(COUNT // 4, dtype=torch.int32),
    "deepcopy": lambda: [copy.deepcopy(piece) for _ in range(16)],
    "pickle": lambda: [pickle.loads(pickle.dumps(piece)) for _ in range(16)],
    "old file": lambda: [loaded() for _ in range(16)],
}
for name, make in WAYS.items():
    before = tidepool.stats()["devices"]["cpu"]["allocated_bytes"]
    try:
        made = make()
        grown = tidepool.stats()["devices"]["cpu"]["allocated_bytes"] - before
        print(name, "counts" if grown >= COUNT else "has left")
    except torch.OutOfMemoryError:
        print(name, "is refused")
    made = None
print(torch.equal(copy.deepcopy(piece) + 1, loaded() + 1))
"""


@pytest.mark.torch_floor
def test_storages_that_python_makes_count():
    at_once, in_parts = ["sized", "resized", "typed"], ["deepcopy", "pickle", "old file"]
    said = {"64MiB": [f"{way} counts" for way in at_once + in_parts],
            "8MiB": [f"{way} is refused" for way in at_once]}
    for budget, expected in said.items():
        done = harness.run([*harness.attached(budget), sys.executable, "-W", "ignore", "-c", WAYS])
        lines = done.stdout.splitlines()
        assert lines[:len(expected)] == expected and lines[-1] == "True", done.stderr
        assert budget != "8MiB" or not any("counts" in line for line in lines)


BOUND_NOW = """
import ctypes, sys, torch
library = ctypes.CDLL(sys.argv[1])
for function in (library.default_allocator, library.present_allocator):
    function.restype = ctypes.c_void_p
before = library.default_allocator()
import tidepool
tidepool.enable(budget="64MiB")
print(library.default_allocator() == library.present_allocator() != before)
"""


@pytest.mark.torch_floor
def test_calls_are_redirected_in_libraries_that_were_bound_when_loaded():
    library = LIBRARIES / f"libcases_bound_now_torch_{VERSION}.so"
    done = harness.run([sys.executable, "-c", BOUND_NOW, str(library)])
    assert done.stdout.split() == ["True"], done.stderr
