"""PyTorch over libtidepool_pluggable.so, on the stand-in device: every entry point and hook."""

import re

import pytest


def test_the_example_trains_within_its_budget(jobs):
    done = jobs.run(jobs.example, "256MiB")
    assert done.returncode == 0, done.stderr[-2000:]
    found = {name: int(value) for name, value in map(str.split, done.stdout.splitlines())}
    assert found["budget_bytes"] == 256 << 20
    assert 0 < found["allocated_peak_bytes"] <= found["reserved_peak_bytes"] <= 256 << 20
    assert found["allocations"] > 50


def test_freed_blocks_are_cached_and_given_back(jobs):
    facts = jobs.json("caching", "64MiB")
    assert facts["allocated"] == [8, 8]
    assert facts["freed"] == [0, 8]
    assert facts["same"]
    assert facts["emptied"] == [0, 0, 0]


@pytest.mark.parametrize("environ", [{"TIDEPOOL_BUDGET": "64MiB"}, {"TIDEPOOL_BUDGET": "6.25%"}])
def test_every_device_keeps_to_the_budget(jobs, environ):
    facts = jobs.json("budgets", environ=environ, devices=2)
    for where in range(2):
        assert facts[f"full {where}"] == [56, 56]
        assert facts[f"null {where}"]
        assert facts[f"later {where}"]
    assert max(facts["held"]) <= 64
    lines = [line for line in facts["stderr"].splitlines() if line.startswith("tidepool:")]
    assert len(lines) == 2
    for where, line in enumerate(lines):
        assert re.match(rf"tidepool: out of memory on cuda:{where}: 16.00 MiB asked for, budget "
                        r"64.00 MiB, of which .* are held and 56.00 MiB allocated; "
                        r"the largest request that could be served is 8.00 MiB", line)


def test_the_throwing_entry_point_raises_in_python(jobs):
    facts = jobs.json("thrown", "64MiB")
    assert facts["error"].startswith("tidepool: out of memory on cuda:0: 32.00 MiB asked for")
    assert facts["kept"]
    assert facts["state"] == [48, 48]
    assert facts["later"]
    assert "tidepool:" not in facts["stderr"]


def test_a_fraction_of_the_memory_caps_it_too(jobs):
    facts = jobs.json("fraction", "512MiB")
    assert facts["small"] == [True, False]
    assert facts["larger"]
    assert not facts["lower"]


def test_a_recorded_stream_keeps_the_block(jobs):
    facts = jobs.json("streams", "64MiB")
    assert not facts["reused_early"]
    assert facts["reused_late"]
    assert facts["unordered"] == []


def test_graphs_keep_their_memory(jobs):
    facts = jobs.json("graphs", "256MiB")
    assert facts["reused_inside"]
    assert facts["apart"]
    assert facts["shared"]
    assert facts["while_used"]
    assert facts["waits"] == 1  # for replays that may still run
    assert facts["result_kept"]
    assert facts["left"] == 0
    assert facts["held"] <= 2 << 20  # the pages of PyTorch's few bytes
    assert facts["problems"] == []


def test_a_block_is_its_own_base(jobs):
    facts = jobs.json("bases", "64MiB")
    assert facts["base"]
    assert facts["size"] == 3 << 20
    assert facts["inside"] == [None, 0]


def test_sizes_and_devices_that_do_not_exist_give_null_and_a_line(jobs):
    facts = jobs.json("odd_sizes", "64MiB")
    assert [facts[name] for name in ("zero", "negative", "huge", "no_device")] == [None] * 4
    assert facts["later"]
    lines = [line for line in facts["stderr"].splitlines() if line.startswith("tidepool:")]
    assert len(lines) == 3
    assert "device 9: there are 1 CUDA devices" in lines[2]


def test_a_budget_that_is_no_size_is_named(jobs):
    facts = jobs.json("bases", environ={"TIDEPOOL_BUDGET": "64mib"})
    assert "TIDEPOOL_BUDGET: '64mib': unknown unit 'mib', did you mean MiB?" in facts["stderr"]
    assert facts["size"] == 0


@pytest.mark.parametrize("misuse", ["double", "interior", "foreign", "size", "stream", "device",
                                    "recorded"])
def test_misuse_aborts_naming_the_address(jobs, misuse):
    done = jobs.run("pluggable_job.py", misuse, "64MiB", devices=2)
    assert done.returncode == -6, (done.returncode, done.stderr[-2000:])
    address = int(done.stdout, 16)
    named = {"foreign": 0x10000, "interior": address + 512, "recorded": address + 512}
    line = next(line for line in done.stderr.splitlines() if line.startswith("tidepool:"))
    assert f"{named.get(misuse, address):#x}" in line
