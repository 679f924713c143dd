"""What is said of a machine, from files of the test's own."""

from tidepool.doctor import _machine


def test_a_limit_above_the_memory_is_none(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 4096 kB\nMemAvailable: 1024 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
    (tmp_path / "proc/sys/vm/overcommit_memory").write_text("2\n")
    group = tmp_path / "sys/fs/cgroup/job"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{2**50}\n")
    facts = _machine.facts({"LD_PRELOAD": "a.so:b.so c.so"}, tmp_path)
    assert (facts["memory_bytes"], facts["available_bytes"]) == (4 << 20, 1 << 20)
    assert facts["cgroup_bytes"] is None and facts["shared"] is None
    assert facts["overcommit"] == 2 and facts["preloaded"] == ["a.so", "b.so", "c.so"]
    (group / "memory.max").write_text(f"{2 << 20}\n")
    assert _machine.facts({}, tmp_path)["cgroup_bytes"] == 2 << 20


def test_allocators_are_known_by_their_names():
    preloaded = ["/usr/lib/libjemalloc.so.2", "/opt/mimalloc/libother.so", "libtcmalloc_minimal.so"]
    assert _machine.other_allocators(preloaded) == [preloaded[0], preloaded[2]]
