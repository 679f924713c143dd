"""Recordings are read as they were written; what is damaged or foreign is an error that says so."""

import random
import struct

import pytest
from tidepool.report import command, page, recording
from tidepool.report.trace_reader import ACTIVATIONS, EVICTED, PARAMETERS, TraceError

NAMES_BYTES, SEGMENT, SEGMENTS = 256, 8, 2
(TAKEN, FREED, OWNED, EVICTED_KIND, RESTORED, REPLAYED, COPIED, HELD, LIMITED, STEP, SEARCHED,
 FORGOTTEN, OUT_OF_MEMORY, NEEDED) = range(1, 15)
MM, RELU = 1, 2


def write(path, events, *, version=1, written=None, ended=1):
    """Write a recording of (kind, where, bytes, storage, name) or with role and reason behind."""
    names = b"".join(struct.pack("<H", len(name)) + name for name in (b"aten::mm", b"aten::relu"))
    count = len(events) if written is None else written
    head = struct.pack("<8sIIQIIQQII32s128sQIIQ", b"TideWork", version, 32, SEGMENT, SEGMENTS,
                       NAMES_BYTES, 0, 4096, 1, 0, b"cpu", b"job", count, len(names), ended, 9)
    room = [bytes(32)] * (SEGMENT * SEGMENTS)
    for number, (kind, where, size, storage, name, *more) in enumerate(events):
        role, reason = (*more, 0, 0)[:2]
        event = struct.pack("<QQQIHB", 10 * number, where, size | role << 48 | reason << 56,
                            storage, name, kind)
        check = 0xA5
        for byte in event:
            check ^= byte
        room[number % len(room)] = event + bytes([check])
    content = head.ljust(4096, b"\0") + names.ljust(NAMES_BYTES, b"\0") + b"".join(room)
    path.write_bytes(content)
    return content


JOB = [(HELD, 0, 1024, 0, 0), (TAKEN, 0, 512, 0, MM), (OWNED, 0, 512, 1, MM, 1, 1),
       (TAKEN, 512, 256, 0, RELU), (EVICTED_KIND, 512, 200, 2, RELU), (FREED, 512, 256, 0, 0),
       (REPLAYED, 40, 0, 0, RELU), (TAKEN, 768, 256, 0, RELU), (RESTORED, 768, 200, 2, RELU),
       (NEEDED, 0, 0, 2, MM), (SEARCHED, 7, 3, 0, 0), (STEP, 0, 0, 0, 0), (LIMITED, 0, 2048, 0, 0),
       (OUT_OF_MEMORY, 0, 999, 0, 0)]


def test_a_recording_is_the_job_as_it_ran(tmp_path):
    write(tmp_path / "a.rec", JOB)
    work = recording.read_recording(tmp_path / "a.rec")
    past = work.history
    assert (work.trace.name, work.trace.device, work.trace.steps) == ("job", "cpu", 1)
    assert list(past.held_sizes) == [1024]
    assert work.peak_bytes == 768
    assert work.budgets == [(120, 2048)]
    assert work.shortages == [(130, 999)]
    assert work.searches_ns == 7
    assert list(past.loss_bytes) == [200, -200]
    assert list(past.loss_ns) == [0, 40]
    assert work.trace.operators[past.loss_calls[1]].name == "aten::mm"  # which needed it
    assert [past.groups[group] for group in past.loss_groups] == \
        [(ACTIVATIONS, "aten::relu", -1, "")] * 2
    assert (PARAMETERS, "aten::mm", -1, "parameters") in past.groups
    assert [past.groups[past.whose[k]][0] for k in range(len(past.times))
            if past.where[k] < 0] == [EVICTED, EVICTED]
    assert past.overhead == pytest.approx(130 / (130 - 47))


def test_a_block_that_is_moved_was_not_lost(tmp_path):
    write(tmp_path / "a.rec", [(TAKEN, 0, 256, 0, MM), (EVICTED_KIND, 0, 200, 1, MM),
                               (COPIED, 0, 200, 0, 0), (FREED, 0, 256, 0, 0),
                               (TAKEN, 512, 256, 0, MM), (RESTORED, 512, 200, 1, MM),
                               (NEEDED, 0, 0, 1, MM)])
    past = recording.read_recording(tmp_path / "a.rec").history
    assert (past.moves, past.moved_bytes, len(past.loss_times), past.often) == (1, 200, 0, {})


def test_what_was_written_over_is_not_needed(tmp_path):
    first = [(STEP, 0, 0, 0, 0)] * SEGMENT
    known = [(HELD | 0x80, 0, 1024, 0, 0), (OWNED | 0x80, 0, 512, 1, MM, 1, 1),
             (EVICTED_KIND | 0x80, 0, 64, 2, RELU)]
    second = known + [(STEP, 0, 0, 0, 0)] * (SEGMENT - 3)
    third = [*known, (FREED, 0, 512, 0, 0)]
    write(tmp_path / "a.rec", first + second + third)
    work = recording.read_recording(tmp_path / "a.rec")
    assert (work.lost, work.events) == (SEGMENT, SEGMENT + 4)
    assert work.trace.steps == SEGMENT - 3
    assert work.peak_bytes == 512
    assert list(work.history.sizes) == [512, 64, 0]  # there, evicted, freed


@pytest.mark.parametrize(("change", "says"), [
    (lambda content: b"", "is no recording"),
    (lambda content: b'{"tidepool_trace":1}\n', "is no recording"),
    (lambda content: content[:100], "ends within its header"),
    (lambda content: content[:4100], "ends within its names"),
    (lambda content: content[:4096 + NAMES_BYTES + 33], "fewer events than its header says"),
    (lambda content: content[:8] + b"\2" + content[9:], "has version 2, this Tidepool reads 1"),
    (lambda content: content[:12] + b"\0" + content[13:], "header is damaged"),
    (lambda content: content[:4096] + b"\xff" + content[4097:], "names are damaged"),
    (lambda content: content[:4096 + NAMES_BYTES + 70] + b"\xee"
     + content[4096 + NAMES_BYTES + 71:], "event 2 of the recording is damaged"),
])
def test_what_is_damaged_or_foreign_is_named(tmp_path, change, says):
    path = tmp_path / "a.rec"
    path.write_bytes(change(write(path, JOB)))
    with pytest.raises(TraceError, match=says) as caught:
        recording.read_recording(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("event", [(99, 0, 0, 0, 0), (TAKEN, 0, 8, 0, 7), (OWNED, 0, 8, 1, MM, 9),
                                   (OWNED, 0, 8, 1, MM, 0, 99)])
def test_an_event_with_an_unknown_part_is_named(tmp_path, event):
    write(tmp_path / "a.rec", [JOB[0], event])
    with pytest.raises(TraceError, match="event 1"):
        recording.read_recording(tmp_path / "a.rec")


def test_nothing_but_an_error_comes_of_any_damage(tmp_path):
    path = tmp_path / "a.rec"
    content = write(path, JOB + JOB)
    chance = random.Random(5)
    used = [*range(240), *range(4096, 4128), *range(4096 + NAMES_BYTES, len(content))]
    refused = 0
    for _ in range(400):
        damaged = bytearray(content)
        for place in chance.sample(used, chance.randint(1, 4)):
            damaged[place] = chance.randrange(256)
        path.write_bytes(damaged[:chance.choice((len(damaged), chance.randrange(len(damaged))))])
        try:
            recording.read_recording(path)
        except TraceError:
            refused += 1
    assert 200 < refused < 400  # some change nothing that counts, such as a date


def test_events_that_contradict_each_other_make_a_report(tmp_path):
    """A ring that began late has ends of what it does not know; whatever comes, a page is made."""
    chance = random.Random(6)
    for _ in range(60):
        events = [(chance.randint(TAKEN, NEEDED) | chance.choice((0, 0, 0, 0x80)),
                   512 * chance.randrange(4), chance.choice((64, 512, 4096)), chance.randint(0, 3),
                   chance.randint(0, 2), chance.randrange(2)) for _ in range(chance.randint(1, 40))]
        write(tmp_path / "a.rec", events)
        page.html(command.make_recorded(tmp_path / "a.rec", None, lambda _: None))


def test_a_recording_has_the_budget_that_it_had(tmp_path):
    write(tmp_path / "a.rec", JOB)
    with pytest.raises(ValueError, match="as it ran"):
        command.make_recorded(tmp_path / "a.rec", "50%", lambda _: None)
    assert command.main(tmp_path / "a.rec", None, None) == 0
    assert (tmp_path / "a.html").read_text().startswith("<!")
