"""Tables of plain text."""

from tidepool.doctor import _table


def test_columns_are_aligned_and_lines_end_with_text():
    rows = [("budget", "time"), ("1 GiB", "+5 %"), ("12 MiB",)]
    assert _table.aligned(rows, right=(1,), indent=" ") == (
        " budget  time\n"
        " 1 GiB   +5 %\n"
        " 12 MiB")
    assert _table.aligned([]) == ""
