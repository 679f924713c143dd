"""Draws curves and points as an SVG picture, without a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#999999",
           "#7f3c8d", "#a5aa00")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 64, 170, 40, 52
# There is no background: this grey can be read on that of a light page and of a dark one.
STYLE = "<style>text{fill:#777}.grid{stroke:#777;stroke-opacity:.3}</style>"

Curve = Sequence[tuple[float, float]]


class Axes:
    """Where values lie in the picture: x from the smallest to the largest, y from `floor` up."""

    def __init__(self, curves: Mapping[str, Curve], floor: float) -> None:
        xs = [x for curve in curves.values() for x, _ in curve]
        ys = [y for curve in curves.values() for _, y in curve]
        self.left, self.right = min(xs), max(max(xs), min(xs) + 0.05)
        self.bottom, self.top = min(floor, *ys, floor), max(floor + 0.05, *ys, floor)

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (LEFT + (x - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (y - self.bottom) / (self.top - self.bottom)
                * (HEIGHT - TOP - BOTTOM))

    def grid(self) -> list[str]:
        """Return lines with their numbers."""
        parts = []
        for k in range(6):
            x = self.left + (self.right - self.left) * k / 5
            y = self.bottom + (self.top - self.bottom) * k / 5
            px, py = self.at(x, y)
            parts += [f'<line x1="{px:.1f}" x2="{px:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" '
                      'class="grid"/>',
                      f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py:.1f}" y2="{py:.1f}" '
                      'class="grid"/>',
                      f'<text x="{px:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
                      f'{x:.2f}</text>',
                      f'<text x="{LEFT - 6}" y="{py + 4:.1f}" text-anchor="end">{y:.2f}</text>']
        return parts


def draw(curves: Mapping[str, Curve], title: str, floor: float = 1.0, x_title: str = "") -> str:
    """Return a picture of curves by name; a curve of one point is a dot.

    Requires: there is a point.
    """
    axes = Axes(curves, floor)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif" font-size="12">', STYLE,
             f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>', *axes.grid()]
    if x_title:
        parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" '
                     f'text-anchor="middle">{escape(x_title)}</text>')
    for k, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[k % len(COLOURS)]
        places = [axes.at(*point) for point in curve]
        if len(places) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                         'stroke-width="1.6"/>')
        else:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
                      for x, y in places]
        legend = TOP + 14 + 18 * k
        parts += [f'<line x1="{WIDTH - RIGHT + 14}" x2="{WIDTH - RIGHT + 36}" y1="{legend - 4}" '
                  f'y2="{legend - 4}" stroke="{colour}" stroke-width="2"/>',
                  f'<text x="{WIDTH - RIGHT + 42}" y="{legend}">{escape(name)}</text>']
    return "\n".join([*parts, "</svg>", ""])
