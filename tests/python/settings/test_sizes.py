"""Sizes: what a user may write, what comes back, and how much memory there is."""

import pytest
from tidepool.settings import _sizes


@pytest.mark.parametrize("text, size", [
    ("8GiB", 8 * 2**30), ("8GB", 8 * 10**9), ("1KiB", 1024), ("1KB", 1000), ("1.5MiB", 1572864),
    ("8589934592", 8589934592), ("80%", 800), ("100%", 1000), ("0.5%", 5), (" 2 GiB ", 2 * 2**30),
    ("512B", 512), ("0.1GB", 10**8),
])
def test_sizes_are_read(text, size):
    assert _sizes.parse_size(text, device_bytes=1000) == size


@pytest.mark.parametrize("text, reason", [
    ("8gib", "did you mean GiB"), ("8g", "did you mean GiB"), ("8gb", "did you mean GB"),
    ("8XB", "known: B, KB"), ("much", "8GiB"), ("", "8GiB"), ("-1GiB", "8GiB"), ("120%", "100%"),
    ("0%", "above 0%"), ("0.8", "write 80.0%"), ("2.5", "whole number"), ("8 GiB x", "8GiB"),
])
def test_what_is_wrong_is_said(text, reason):
    with pytest.raises(ValueError, match=reason):
        _sizes.parse_size(text, device_bytes=1000)


def test_percentages_need_something_to_be_taken_of():
    with pytest.raises(ValueError, match="no meaning"):
        _sizes.parse_size("50%")


@pytest.mark.parametrize("size, text", [
    (2 * 2**30, "2 GiB"), (8 * 10**9, "8 GB"), (1536 * 2**20, "1536 MiB"), (512, "512 B"),
    (8 * 2**30 + 1024, "8.00 GiB"), (2**30 + 1, "1.00 GiB"), (0, "0 B"), (1000, "1000 B"),
])
def test_sizes_are_written(size, text):
    assert _sizes.format_size(size) == text


def fake_root(folder, cgroup, **files):
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/meminfo").write_text("MemTotal:       1000 kB\nMemFree: 1 kB\n")
    (folder / "proc/self/cgroup").write_text(cgroup)
    for path, text in files.items():
        path = folder / "sys/fs/cgroup" / path.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / path.name.replace("_dot_", ".")).write_text(text)
    return folder


@pytest.mark.parametrize("cgroup, files, expected", [
    ("0::/\n", {}, 1024000),
    ("0::/\n", {"memory_dot_max": "max\n"}, 1024000),
    ("0::/a/b\n", {"a__memory_dot_max": "5000\n", "a__b__memory_dot_max": "max\n"}, 5000),
    ("0::/host/path/not/here\n", {"memory_dot_max": "7000\n"}, 7000),
    ("3:cpu,memory:/job\n", {"memory__job__memory_dot_limit_in_bytes": "6000\n"}, 6000),
    ("3:memory:/job\n", {"memory__memory_dot_limit_in_bytes": "9223372036854771712\n"}, 1024000),
    ("0::/\n", {"memory_dot_max": "2000000000\n"}, 1024000),
])
def test_memory_is_the_smaller_of_machine_and_cgroup(tmp_path, cgroup, files, expected):
    assert _sizes.cpu_memory_bytes(fake_root(tmp_path, cgroup, **files)) == expected


@pytest.mark.parametrize("available, limit, expected", [
    (100, "max", 50 << 20), (800, "max", 400 << 20), (16 << 10, "max", 14 << 30),
    (16 << 10, 4 << 30, 3 << 30),
])
def test_a_part_of_what_nobody_uses_is_left_to_what_is_no_tensor(tmp_path, available, limit,
                                                                 expected):
    folder = fake_root(tmp_path, "0::/\n", memory_dot_max=f"{limit}\n")
    (folder / "proc/meminfo").write_text(
        f"MemTotal: {32 << 20} kB\nMemFree: 1 kB\nMemAvailable: {available << 10} kB\n")
    assert _sizes.cpu_budget_bytes(folder) == expected


def test_what_others_in_the_group_use_is_not_there(tmp_path):
    folder = fake_root(tmp_path, "0::/\n", memory_dot_max=f"{8 << 30}\n",
                       memory_dot_current=f"{5 << 30}\n",
                       memory_dot_stat=f"anon 1\ninactive_file {1 << 30}\n")
    (folder / "proc/meminfo").write_text(f"MemTotal: {32 << 20} kB\nMemAvailable: {16 << 20} kB\n")
    assert _sizes.cpu_budget_bytes(folder) == 3 << 30


def test_this_machine_has_memory():
    assert _sizes.cpu_memory_bytes() > 2**26


@pytest.mark.parametrize("size, text", [
    (4 << 30, "4GiB"), (5 << 20, "5MiB"), (3 << 10, "3KiB"), (123456789, "123456789"), (0, "0"),
])
def test_a_size_for_a_command_is_exact(size, text):
    assert _sizes.as_argument(size) == text
    assert _sizes.parse_size(text) == size
