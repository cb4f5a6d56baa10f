"""Pictures of the documentation, as SVG from a text: ``make generate`` writes them.

Each ``docs/pictures/NAME.txt`` becomes ``NAME.svg``. A test holds that it is what this module draws. A text has one
thing a line: ``picture`` and its size, ``title``, ``about`` for those who cannot see it, and then

* of ``boxes``: ``area`` and ``box`` with name, left, top, width, height and lines of text, and ``arrow`` with two ends
  and a text. An end is a box, its side, and how far along the side, as ``driver.right@0.4``.
* of a ``sequence``: ``actor`` with name and lines of text, ``message`` from an actor to another, and ``note``;
* of a ``timeline``: ``row`` with its text, ``rates`` with its numbers by the second, and ``mark`` with a second and a
  text.

Lines of text are separated by ``|``. A last word ``strong`` makes an arrow or message thick. The picture has its own
background and follows the reader's light or dark scheme, so that it is readable on any page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PICTURES = REPOSITORY / "docs" / "pictures"

_HEAD_SIZE, _TEXT_SIZE = 15, 13
_BARS_LEFT, _BARS_HEIGHT = 16.0, 90.0
_TICKS_SECONDS = 20
_CHARACTER = 0.56
"""Mean width of a character of a sans-serif font, in its size."""
_STYLE = """
text{font-family:system-ui,"Segoe UI",Helvetica,Arial,sans-serif;font-size:13px;fill:#1f2933}
.head{font-size:15px;font-weight:600}.ground{fill:#ffffff}.area{fill:#eef2f6;stroke:#c3ccd6}
.box{fill:#ffffff;stroke:#52606d;stroke-width:1.5}.line{stroke:#52606d;stroke-width:1.5;fill:none}
.strong{stroke:#b44d12;stroke-width:3}.tip{fill:#52606d}.tip-strong{fill:#b44d12}.label{fill:#3e4c59}
.decides{fill:#b44d12;font-weight:600}.thread{stroke:#9aa5b1;stroke-dasharray:4 4}.note{fill:#eef2f6;stroke:#c3ccd6}
.bars{fill:#3b7dbd}
@media (prefers-color-scheme: dark){
text{fill:#e4e7eb}.ground{fill:#0d1117}.area{fill:#161b22;stroke:#30363d}.box{fill:#21262d;stroke:#9aa5b1}
.line{stroke:#9aa5b1}.strong{stroke:#ffa657}.tip{fill:#9aa5b1}.tip-strong{fill:#ffa657}.label{fill:#cbd2d9}
.decides{fill:#ffa657}.bars{fill:#6cb6ff}.thread{stroke:#52606d}.note{fill:#161b22;stroke:#30363d}}
"""


class PictureError(Exception):
    """A text that is no picture, or a line that does not fit; the message names it."""


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    width: float
    height: float

    def end(self, side: str, along: float) -> tuple[float, float]:
        """The point on a side.

        :param along: from the left or the top, as a part of the side.
        """
        across, down = self.left + self.width * along, self.top + self.height * along
        points = {
            "left": (self.left, down),
            "right": (self.left + self.width, down),
            "top": (across, self.top),
            "bottom": (across, self.top + self.height),
        }
        return points[side]


@dataclass
class _Drawing:
    width: float
    height: float
    title: str = ""
    about: str = ""
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, *, kind: str = "", anchor: str = "middle", room: float = 0) -> None:
        """A line of text. :param room: pixels that it may have; 0 for any."""
        size = _HEAD_SIZE if kind == "head" else _TEXT_SIZE
        if room and len(text) * size * _CHARACTER > room:
            msg = f"{self.title}: no room for {text!r}"
            raise PictureError(msg)
        style = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{style}>{escape(text)}</text>')

    def rectangle(self, box: Box, kind: str) -> None:
        self.parts.append(
            f'<rect class="{kind}" x="{box.left:g}" y="{box.top:g}" width="{box.width:g}" height="{box.height:g}"'
            ' rx="6"/>'
        )

    def arrow(self, start: tuple[float, float], end: tuple[float, float], *, strong: bool) -> None:
        kind, tip = ("line strong", "tip-strong") if strong else ("line", "tip")
        self.parts.append(
            f'<path class="{kind}" d="M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}" marker-end="url(#{tip})"/>'
        )

    def svg(self) -> str:
        tips = "".join(
            f'<marker id="{tip}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9"'
            f' markerUnits="userSpaceOnUse" orient="auto"><path class="{tip}" d="M0 0L10 5L0 10z"/></marker>'
            for tip in ("tip", "tip-strong")
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {self.width:g} {self.height:g}"'
            f' width="{self.width:g}" height="{self.height:g}">'
        )
        ground = f'<rect class="ground" width="{self.width:g}" height="{self.height:g}" rx="8"/>'
        described = f"<title>{escape(self.title)}</title>\n<desc>{escape(self.about)}</desc>"
        lines = [head, described, f"<style>{_STYLE}</style>", f"<defs>{tips}</defs>", ground, *self.parts, "</svg>", ""]
        return "\n".join(lines)


def draw(text: str) -> str:
    """The SVG of a text.

    :raises PictureError: it is no picture, or a line of text does not fit.
    """
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    if not lines or lines[0][0] != "picture":
        msg = "a picture begins with its kind and size"
        raise PictureError(msg)
    kind, *size = lines[0][1].split()
    said = {word: rest for word, rest in lines[1:3]}
    things = [(word, rest) for word, rest in lines[3:]]
    try:
        if kind == "boxes":
            drawing = _Drawing(float(size[0]), float(size[1]), said["title"], said["about"])
            _draw_boxes(drawing, things)
        else:
            drawing = _Drawing(float(size[0]), 0, said["title"], said["about"])
            {"sequence": _draw_sequence, "timeline": _draw_timeline}[kind](drawing, things)
    except (KeyError, ValueError, IndexError) as error:
        msg = f"{said.get('title', kind)}: {error!r} in the text"
        raise PictureError(msg) from error
    return drawing.svg()


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split("|")]


def _weight(text: str) -> tuple[str, bool]:
    """The text of an arrow, and whether it is thick."""
    return (text.removesuffix(" strong"), True) if text.endswith(" strong") else (text, False)


def _draw_boxes(drawing: _Drawing, things: list[tuple[str, str]]) -> None:
    boxes: dict[str, Box] = {}
    for word, rest in things:
        if word in {"area", "box"}:
            name, *numbers, text = rest.split(maxsplit=5)
            box = boxes[name] = Box(*map(float, numbers))
            drawing.rectangle(box, word)
            head, *others = _split(text)
            middle = box.left + box.width / 2
            if word == "area":
                drawing.text(box.left + 14, box.top + 24, head, kind="head", anchor="start")
                continue
            top = box.top + box.height / 2 - 9.5 * len(others) + 5
            drawing.text(middle, top, head, kind="head", room=box.width)
            for number, line in enumerate(others, 1):
                drawing.text(middle, top + 20 * number, line, kind="label", room=box.width)
        elif word == "arrow":
            first, last, text = rest.split(maxsplit=2)
            text, strong = _weight(text)
            start, end = _end(boxes, first), _end(boxes, last)
            drawing.arrow(start, end, strong=strong)
            _write_arrow(drawing, _split(text), start, end, strong=strong)
        else:
            msg = f"{word!r} is no part of a picture of boxes"
            raise ValueError(msg)


def _write_arrow(
    drawing: _Drawing, lines: list[str], start: tuple[float, float], end: tuple[float, float], *, strong: bool
) -> None:
    """The text of an arrow that goes up or down is at its right, any other's is above it."""
    kind = "decides" if strong else "label"
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    is_upright = abs(start[0] - end[0]) < abs(start[1] - end[1])
    for number, line in enumerate(lines):
        if is_upright:
            drawing.text(x + 10, y + 5 + 17 * (number - (len(lines) - 1) / 2), line, kind=kind, anchor="start")
        else:
            slope = abs(start[1] - end[1]) / 3
            drawing.text(x, y - slope - 9 - 17 * (len(lines) - 1 - number), line, kind=kind)


def _end(boxes: dict[str, Box], text: str) -> tuple[float, float]:
    where, _, along = text.partition("@")
    name, side = where.split(".")
    return boxes[name].end(side, float(along or 0.5))


def _draw_sequence(drawing: _Drawing, things: list[tuple[str, str]]) -> None:
    actors = [rest for word, rest in things if word == "actor"]
    step = drawing.width / len(actors)
    places: dict[str, float] = {}
    for number, rest in enumerate(actors):
        name, text = rest.split(maxsplit=1)
        places[name] = step * (number + 0.5)
        box = Box(places[name] - 95, 16, 190, 52)
        drawing.rectangle(box, "box")
        head, *others = _split(text)
        drawing.text(places[name], 38, head, kind="head", room=box.width)
        for line in others:
            drawing.text(places[name], 57, line, kind="label", room=box.width)
    top = 104.0
    begin = len(drawing.parts)
    for word, rest in (thing for thing in things if thing[0] != "actor"):
        if word == "note":
            drawing.rectangle(Box(16, top - 20, drawing.width - 32, 30), "note")
            drawing.text(drawing.width / 2, top, rest, kind="label", room=drawing.width - 48)
        elif word == "message":
            sender, receiver, text = rest.split(maxsplit=2)
            text, strong = _weight(text)
            start, end = places[sender], places[receiver]
            drawing.arrow((start, top + 6), (end, top + 6), strong=strong)
            _write_message(drawing, text, start, end, top, strong=strong)
        else:
            msg = f"{word!r} is no part of a sequence"
            raise ValueError(msg)
        top += 46
    drawing.height = top - 8
    threads = [f'<path class="line thread" d="M{x:g} 68V{drawing.height - 12:g}"/>' for x in places.values()]
    drawing.parts[begin:begin] = threads


def _write_message(drawing: _Drawing, text: str, start: float, end: float, top: float, *, strong: bool) -> None:
    """The text above its arrow; a patch of ground behind it keeps the lines of actors out of it."""
    width = len(text) * _TEXT_SIZE * _CHARACTER + 12
    middle = (start + end) / 2
    middle = min(max(middle, width / 2 + 8), drawing.width - width / 2 - 8)
    drawing.parts.append(
        f'<rect class="ground" x="{middle - width / 2:g}" y="{top - 15:g}" width="{width:g}" height="18"/>'
    )
    drawing.text(middle, top - 2, text, kind="decides" if strong else "label")


@dataclass
class _Row:
    title: str
    rates: list[int] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)


def _draw_timeline(drawing: _Drawing, things: list[tuple[str, str]]) -> None:
    """The bars of a row have a scale of their own and end with its rates. All rows have the same axis of seconds."""
    rows: list[_Row] = []
    for word, rest in things:
        if word == "row":
            rows.append(_Row(rest))
        elif word == "rates":
            rows[-1].rates += map(int, rest.split())
        elif word == "mark":
            moment, text = rest.split(maxsplit=1)
            rows[-1].marks.append((float(moment), text))
        else:
            msg = f"{word!r} is no part of a timeline"
            raise ValueError(msg)
    seconds = max(len(row.rates) for row in rows)
    width = (drawing.width - 2 * _BARS_LEFT) / seconds
    top = 0.0
    for row in rows:
        drawing.text(_BARS_LEFT, top + 26, row.title, kind="head", anchor="start")
        bottom = top + 42 + 18 * len(row.marks) + _BARS_HEIGHT
        scale = _BARS_HEIGHT / max(*row.rates, 1)
        bars = "".join(
            f"M{_BARS_LEFT + second * width:.5g} {bottom:g}v{-rate * scale:.3g}h{width:.3g}v{rate * scale:.3g}z"
            for second, rate in enumerate(row.rates)
            if rate
        )
        drawing.parts.append(f'<path class="bars" d="{bars}"/>')
        for number, (at, text) in enumerate(row.marks):
            x, y = _BARS_LEFT + at * width, top + 46 + 18 * number
            drawing.parts.append(f'<path class="line" d="M{x:.5g} {y - 12:g}V{bottom:g}"/>')
            drawing.text(x + 5, y, text, kind="decides", anchor="start", room=drawing.width - x - 5)
        end = _BARS_LEFT + len(row.rates) * width
        drawing.parts.append(f'<path class="line" d="M{_BARS_LEFT:g} {bottom:g}H{end:.5g}"/>')
        top = bottom + 6
    for second in range(0, seconds, _TICKS_SECONDS):
        label = f"{second} s" if second else "0"
        drawing.text(_BARS_LEFT + second * width, top + 14, label, kind="label", anchor="start")
    drawing.height = top + 26


def pictures() -> Iterator[tuple[Path, str]]:
    """The file of each picture, and what belongs into it; called by :func:`main` and by the drift test."""
    for source in sorted(PICTURES.glob("*.txt")):
        yield source.with_suffix(".svg"), draw(source.read_text(encoding="utf-8"))


def main() -> int:
    """Writes all pictures; the exit status is 0."""
    for file, svg in pictures():
        file.write_text(svg, encoding="utf-8")
        print(f"wrote {file.relative_to(REPOSITORY)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
