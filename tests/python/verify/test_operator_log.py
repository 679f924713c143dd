"""Of two operator logs, the maker of the first tensor that is read with other contents."""

import pytest
from tidepool.verify import _operator_log
from tidepool.verify._json_lines import JsonLines


def line(call, operator, reads=(), writes=(), step=1):
    return {"call": call, "step": step, "operator": operator, "reads": list(reads),
            "writes": list(writes)}


def read(fingerprint, maker=None, name="self"):
    return [name, fingerprint, maker, "2x3 float32"]


def log(relu="r", relu_read="r", product="m", root="x", last=()):
    return [line(1, "aten::relu", [read(root)], [relu]),
            line(2, "aten::mm", [read(relu_read, [1, 0]), read("y")], [product]),
            line(3, "", [["gradient w (2)", product, [2, 0], ""]]),
            line(4, "aten::add_", [read("z", [2, 0], "other")], ["s"], step=2), *last]


RELU, MM = "aten::relu (call 1 of step 1)", "aten::mm (call 2 of step 1)"


@pytest.mark.parametrize("other, expected", [
    (log(), None),
    (log(relu_read="BAD"), f"{RELU}: what it made was kept or restored with other contents, first "
                           f"read by {MM} (self, 2x3 float32)"),
    (log(relu="BAD", relu_read="BAD"), f"{RELU}: other results from the same inputs, first read by "
                                       f"{MM} (self, 2x3 float32)"),
    (log(relu="never read"), None),
    (log(product="BAD"), f"{MM}: other results from the same inputs, first read by the comparison "
                         "(gradient w (2))"),
    (log(relu_read="unreadable (Tensor: RuntimeError)"),
     f"{RELU}: what it made cannot be restored where {MM} reads it (self, 2x3 float32)"),
    (log(root="unreadable (Tensor: RuntimeError)"),
     f"a tensor cannot be restored where {RELU} reads it (self, 2x3 float32)"),
    (log(root="BAD"), f"{RELU} reads other contents (self, 2x3 float32) of a tensor made outside "
                      "of the watched operators"),
    ([*log()[:1], line(2, "aten::mul"), *log()[2:]],
     "with Tidepool the job calls aten::mul (call 2 of step 1) where the plain run calls "
     f"{MM}, and all that was read before is the same"),
    ([*log()[:1], *log()[2:]],
     "with Tidepool the job begins or ends backward or a step where the plain run calls "
     f"{MM}, and all that was read before is the same"),
    (log(last=[line(5, "aten::mul")]), None),
    (log()[:1], f"with Tidepool the job ends where the plain run calls {MM}, and all that was read "
                "before is the same"),
    (log()[:2], None),
])
def test_the_culprit(tmp_path, other, expected):
    for name, lines in (("plain", log()), ("attached", other)):
        file = JsonLines(tmp_path / name)
        for entry in lines:
            file.write(entry)
    found = _operator_log.first_culprit(tmp_path / "plain", tmp_path / "attached")
    assert (str(found) if found else None) == expected


def test_calls_are_counted_by_step(tmp_path):
    for name, value in (("plain", "z"), ("attached", "BAD")):
        file = JsonLines(tmp_path / name)
        for entry in [*log()[:3], line(9, "aten::add_", [read(value, [2, 0])], [], step=2)]:
            file.write(entry)
    found = _operator_log.first_culprit(tmp_path / "plain", tmp_path / "attached")
    assert str(found.maker) == MM and str(found.reader) == "aten::add_ (call 1 of step 2)"


def test_who_passed_an_alias_on_is_named(tmp_path):
    for name, value in (("plain", "r"), ("attached", "BAD")):
        file = JsonLines(tmp_path / name)
        for entry in [*log()[:1], line(2, "aten::alias", [read("r", [1, 0])], []),
                      line(3, "aten::mm", [read(value, [1, 0, 2])])]:
            file.write(entry)
    found = _operator_log.first_culprit(tmp_path / "plain", tmp_path / "attached")
    assert str(found).startswith(f"{RELU}, passed on by aten::alias (call 2 of step 1): what it")
