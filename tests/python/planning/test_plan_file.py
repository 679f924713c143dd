"""Plan files: what is written is whole, and what is damaged is refused."""

import zlib

import pytest
from tidepool.planning import plan_file

HEADING = {"trace": "t", "solver": "s", "budget_bytes": 1, "alignment": 64}


def test_a_written_file_is_whole(tmp_path):
    path = tmp_path / "plan"
    path.write_text(plan_file.text_of(HEADING, [{"digest": "0" * 16}, {"digest": "1" * 16}]))
    assert plan_file.checked_path(str(path)) == str(path)
    assert plan_file.may_replace(path)


def test_a_file_with_any_byte_changed_or_missing_is_refused(tmp_path):
    path = tmp_path / "plan"
    whole = plan_file.text_of(HEADING, [{"digest": "0" * 16}]).encode()
    for k in range(len(whole)):
        for content in (whole[:k], whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1:]):
            path.write_bytes(content)
            with pytest.raises(plan_file.PlanFileError):
                plan_file.checked_path(str(path))


def _summed(heading):
    """Return a plan file of no steps with this first line, and the right checksum."""
    return f'{heading}\n{{"end":0,"crc32":"{zlib.crc32((heading + chr(10)).encode()):08x}"}}\n'


def test_the_refusal_says_why(tmp_path):
    path = tmp_path / "plan"
    with pytest.raises(plan_file.PlanFileError, match="cannot be read: No such file"):
        plan_file.checked_path(str(path))
    text = plan_file.text_of(HEADING, [])
    for content, reason in (("{}\n", "is no plan file"), (text[:-5], "is cut short"),
                            (text.replace('"t"', '"u"'), "is damaged"),
                            (_summed('{"tidepool_plan":' + "[" * 50_000), "no JSON"),
                            (_summed('{"tidepool_plan":,'), "no JSON")):
        path.write_text(content)
        with pytest.raises(plan_file.PlanFileError, match=reason):
            plan_file.checked_path(str(path))


def test_only_plan_files_are_replaced(tmp_path):
    path = tmp_path / "plan"
    assert plan_file.may_replace(path)
    path.write_text("a thesis\n")
    assert not plan_file.may_replace(path)
