"""What is written at indexed places may leave where each place is written once."""

import json
import sys

import harness
import pytest

# Writes values at places of one tensor, on two threads; prints the bytes that are kept because they
# may vary, and a digest of the result.
WRITING = """\
import hashlib, json, sys, torch
torch.manual_seed(0)
torch.set_num_threads(2)
torch.ones(1 << 20).exp()  # the thread has chosen its number of threads
rows = torch.randn(4096, 64)


def places(kind):
    if kind in ("distinct", "overlapping"):
        return (torch.randperm(4096),)
    if kind == "pairs":
        return torch.arange(4096) // 64, torch.arange(4096) % 64
    if kind == "mask":
        return (torch.rand(4096) < 2.0,)
    if kind == "repeated":
        return (torch.randint(0, 64, (4096,)),)
    if kind == "negative":
        return (torch.cat([torch.arange(4095), torch.tensor([-2])]),)


kind, accumulate, attached = sys.argv[1:]
shape = (64, 64, 64) if kind == "pairs" else (4096, 64)
target = torch.zeros(64).expand(4096, 64) if kind == "overlapping" else torch.zeros(shape)
if kind.startswith("unpooled"):
    images = torch.randn(4, 8, 64, 64)
    window = (5, 1) if kind.endswith("twice") else (2,)
    pooled, found = torch.nn.functional.max_pool2d(images, *window, return_indices=True)
    result = torch.nn.functional.max_unpool2d(pooled * 2, found, *window, output_size=(64, 64))
elif kind == "strided":
    result = (rows[:, 0] * 2).clone()
    result.as_strided((1024, 1024), (1, 1)).copy_(torch.randn(1024, 1024))
else:
    result = target.index_put_(places(kind), rows * 2, accumulate=accumulate == "add")
kept = None
if attached == "attached":
    import tidepool
    kept = tidepool.stats()["devices"]["cpu"]["root_bytes"]["varies"]
    torch.ones(1 << 20).sin()  # under chaos all leaves
print(json.dumps([kept, hashlib.sha256(result.numpy().tobytes()).hexdigest()]))
"""


def written(kind: str, accumulate: str, front: list[str]) -> list:
    attached = "attached" if front else "plain"
    done = harness.run([*front, sys.executable, "-c", WRITING, kind, accumulate, attached])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.torch_floor
@pytest.mark.parametrize("kind", ["distinct", "unpooled",
                                  *(pytest.param(kind, marks=pytest.mark.long)
                                    for kind in ("pairs", "mask"))])
def test_distinct_places_are_recorded_and_give_the_same_bits(kind):
    for accumulate in ("set", "add"):
        _, plain = written(kind, accumulate, [])
        kept, digest = written(kind, accumulate, harness.attached("1GiB", "--chaos=op"))
        assert kept == 0
        assert digest == plain


@pytest.mark.torch_floor
@pytest.mark.parametrize(("kind", "rows"), [("repeated", 4096), ("negative", 4096),
                                            ("overlapping", 1), ("unpooled twice", 2048),
                                            ("strided", 64)])
def test_what_is_written_twice_stays(kind, rows):
    kept, _ = written(kind, "add", harness.attached("1GiB", "--chaos=op"))
    assert kept == rows * 64 * 4
