"""Pictures of the documentation are what their texts say, fit, and load nothing."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pictures import PICTURES, PictureError, draw, pictures

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(("file", "svg"), list(pictures()), ids=lambda part: getattr(part, "name", ""))
def test_a_picture_is_drawn_from_its_text(file: Path, svg: str) -> None:
    assert file.read_text(encoding="utf-8") == svg, "run `make generate`"


def test_each_picture_has_a_text() -> None:
    drawn = {file.stem for file in PICTURES.glob("*.svg")}
    assert drawn == {file.stem for file in PICTURES.glob("*.txt")}
    assert {"architecture", "checkpoint"} <= drawn


@pytest.mark.parametrize(("file", "svg"), list(pictures()), ids=lambda part: getattr(part, "name", ""))
def test_a_picture_has_words_for_those_who_cannot_see_it_and_both_schemes(file: Path, svg: str) -> None:
    root = ElementTree.fromstring(svg)
    assert root.findtext(f"{SVG}title")
    assert root.findtext(f"{SVG}desc")
    assert "prefers-color-scheme: dark" in (root.findtext(f"{SVG}style") or "")
    links = re.findall(r"(?:href=|src=|@import |url\()[\"']?([^\"')\s]+)", svg)
    assert {link for link in links if not link.startswith("#")} == set(), file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("box a 0 0 1 1 A", "begins with its kind"),
        ("picture boxes 100 100\ntitle T\nabout A\nbox a 0 0 20 20 A text that is far too long", "no room for"),
        ("picture boxes 100 100\ntitle T\nabout A\narrow a.left b.right goes", "'a'"),
        ("picture sequence 100\ntitle T\nabout A\nactor a A\ncircle a A", "no part of a sequence"),
        ("picture timeline 100\ntitle T\nabout A\nrow a\nbars 1", "no part of a timeline"),
        ("picture timeline 100\ntitle T\nabout A\nrates 1", "index"),
        ("picture pie 100\ntitle T\nabout A\nslice 1", "'pie'"),
    ],
)
def test_a_text_that_is_no_picture_is_refused(text: str, message: str) -> None:
    with pytest.raises(PictureError, match=message):
        draw(text)
