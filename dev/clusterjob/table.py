"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def render(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns are as wide as their content. Numbers are aligned right, with thousands separators."""
    cells = [[_text(value) for value in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(header), *cells]) for column in range(len(header))]
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows) for column in range(len(header))
    ]

    def line(values: Sequence[str]) -> str:
        padded = [
            value.rjust(width) if number else value.ljust(width)
            for value, width, number in zip(values, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *(line(row) for row in cells)])


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
