"""Who writes which trace file."""

import gzip
import os

from tidepool.settings import _trace_file


def test_the_first_process_takes_the_path_and_tells_its_children(tmp_path):
    path = tmp_path / "out.jsonl.gz"
    path.write_text("of an earlier job")
    environ = {}
    assert _trace_file.is_first(environ)
    assert _trace_file.claim(str(path), first=True) == path
    assert environ == {"TIDEPOOL_TRACE_OWNER": str(os.getpid())}
    assert not _trace_file.is_first(environ)
    other = _trace_file.claim(str(path), first=False)
    assert other == tmp_path / f"out.{os.getpid()}.jsonl.gz"


def test_of_several_that_a_command_starts_one_takes_the_path(tmp_path):
    path = tmp_path / "out.jsonl"
    assert not _trace_file.is_first({"TIDEPOOL_TRACE_OWNER": "1-abc"})
    assert _trace_file.claim(str(path), first=False) == path
    assert path.read_bytes() == b""
    assert _trace_file.claim(str(path), first=False) != path


def test_where_nothing_can_be_written_the_recorder_says_so(tmp_path):
    path = tmp_path / "no" / "out"
    assert _trace_file.claim(str(path), first=False) == path


def test_only_traces_are_replaced(tmp_path):
    path = tmp_path / "out"
    assert _trace_file.may_replace(path)
    trace = gzip.compress(b'{"tidepool_trace":1,' + b"0" * 100_000)
    for content, may in ((b"", True), (b'{"tidepool_trace":1', True), (trace, True),
                         (trace[:10], True), (trace[:60], True), (b"\x1f\x8b", True),
                         (b"import torch", False), (b"{}", False), (b"\x1f\x8b import", False),
                         (gzip.compress(b"a" * 100_000), False), (gzip.compress(b"{}"), False)):
        path.write_bytes(content)
        assert _trace_file.may_replace(path) is may, content[:20]
    assert not _trace_file.may_replace(tmp_path)


def test_only_recordings_are_replaced(tmp_path):
    path = tmp_path / "out"
    assert _trace_file.may_replace_recording(path)
    for content, may in ((b"", True), (b"TideWork\1", True), (b"\0" * 100_000, True),
                         (b"\0" * 100_000 + b"a", False), (b"\0" * 8 + b"disk", False),
                         (b"import torch", False)):
        path.write_bytes(content)
        assert _trace_file.may_replace_recording(path) is may, content[:20]



def test_names():
    assert _trace_file.name_of("a/gpt.jsonl.gz") == "gpt"
    assert _trace_file.name_of(".gz") == "job"
