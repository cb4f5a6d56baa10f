"""Draws runs as one SVG: for each curve what arrives and is read, the lag, and the parallelism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from xml.sax.saxutils import escape

from bench.autoscaler.simulation import Point, Run

_COLUMNS = 2
_WIDTH, _HEIGHT = 460, 210
_LEFT, _TOP, _GAP = 46, 30, 8
_POINTS = 240
"""Points of a line; a curve has thousands."""
_PANELS: Sequence[tuple[str, float, Sequence[tuple[str, Callable[[Point], float]]]]] = (
    ("records/s", 0.45, (("#9ecae1", lambda point: point.arrives), ("#08519c", lambda point: point.reads))),
    ("lag, s", 0.25, (("#cb181d", lambda point: point.lag_seconds),)),
    ("subtasks", 0.3, (("#238b45", lambda point: float(point.parallelism)),)),
)


def drawn(runs: Mapping[str, Run]) -> str:
    """The text of the SVG. :param runs: by title."""
    rows = -(-len(runs) // _COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_COLUMNS * _WIDTH} {rows * _HEIGHT + 20}"'
        ' font-family="sans-serif" font-size="10">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for index, (title, run) in enumerate(runs.items()):
        row, column = divmod(index, _COLUMNS)
        parts.append(f'<g transform="translate({column * _WIDTH},{row * _HEIGHT})">')
        parts += _curve(title, run)
        parts.append("</g>")
    parts.append(
        f'<text x="{_LEFT}" y="{rows * _HEIGHT + 12}">light blue: arrives, dark blue: is read, red: lag,'
        " green: parallelism, from `python -m bench.autoscaler`</text>"
    )
    return "\n".join([*parts, "</svg>", ""])


def _curve(title: str, run: Run) -> list[str]:
    width, height = _WIDTH - _LEFT - 14, _HEIGHT - _TOP - 3 * _GAP
    points = _thinned(run.points)
    last = points[-1].at
    parts = [f'<text x="{_LEFT}" y="18" font-size="12" font-weight="bold">{escape(title)}</text>']
    top = float(_TOP)
    for name, share, lines in _PANELS:
        tall = height * share
        most = max(max(value(point) for point in points) for _, value in lines) or 1.0
        parts.append(
            f'<rect x="{_LEFT}" y="{top:.0f}" width="{width}" height="{tall:.0f}" fill="none" stroke="#ccc"/>'
            f'<text x="{_LEFT - 4}" y="{top + 9:.0f}" text-anchor="end">{most:,.0f}</text>'
            f'<text x="{_LEFT - 4}" y="{top + tall:.0f}" text-anchor="end" fill="#777">{name}</text>'
        )
        for colour, value in lines:
            way = " ".join(
                f"{_LEFT + width * point.at / last:.1f},{top + tall * (1 - 0.95 * value(point) / most):.1f}"
                for point in points
            )
            parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        top += tall + _GAP
    hours = f"{last / 3600:.0f} h" if last > 7200 else f"{last / 60:.0f} min"
    parts.append(f'<text x="{_LEFT + width}" y="18" text-anchor="end" fill="#777">{hours}</text>')
    return parts


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Of each part of the curve the point with the most lag, so that no peak is lost."""
    size = max(1, len(points) // _POINTS)
    parts = (points[begin : begin + size] for begin in range(0, len(points), size))
    return [max(part, key=lambda point: point.lag_seconds) for part in parts]
