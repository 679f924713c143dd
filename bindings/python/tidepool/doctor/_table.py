"""Tables of plain text, for terminals, pipes and log files alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = (), indent: str = "") -> str:
    """Return rows as lines whose columns are aligned.

    Args:
        right: the columns that end, rather than begin, at one place.
        indent: what each line begins with.
    """
    columns = max(map(len, rows), default=0)
    widths = [max(len(row[k]) for row in rows if k < len(row)) for k in range(columns)]
    lines = []
    for row in rows:
        cells = [text.rjust(widths[k]) if k in right else text.ljust(widths[k])
                 for k, text in enumerate(row)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)
