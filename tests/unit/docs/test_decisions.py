"""docs/adr: each decision has a state, stands in the index under a room, and amendments are named by both sides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

DECISIONS = Path(__file__).resolve().parents[3] / "docs" / "adr"
FILES = {int(file.name[:4]): file for file in sorted(DECISIONS.glob("0*.md"))}
_LINK = r"\[(?P<{0}number>\d+)\]\((?P<{0}file>\d{{4}}-[a-z0-9-]+\.md)\)"
_ROW = re.compile(rf"^\| {_LINK.format('')}: (?P<title>.+) \| (?P<state>[^|]+) \|$", re.MULTILINE)
_STATE = re.compile(
    r"State: (?P<word>accepted|superseded by (?P<by>\[[^.]+\.md\)))\."
    r"(?: Amends (?P<amends>.+?\.md\))\.)?"
    r"(?: Amended by (?P<amended>.+?\.md\))\.)?(?: Supersedes (?P<supersedes>.+?\.md\))\.)?"
)


@dataclass(frozen=True)
class Decision:
    """Title and state of a file."""

    title: str
    word: str
    amends: frozenset[int]
    amended: frozenset[int]
    supersedes: frozenset[int]
    superseded: frozenset[int]


def linked(text: str | None) -> frozenset[int]:
    """Numbers of the linked decisions, whose files have these numbers."""
    found = re.findall(r"\[(\d+)\]\(([^)]+)\)", text or "")
    assert [FILES[int(number)].name for number, _ in found] == [name for _, name in found]
    return frozenset(int(number) for number, _ in found)


def decision(number: int) -> Decision:
    heading, _, state, *_ = FILES[number].read_text(encoding="utf-8").splitlines()
    head, _, title = heading.partition(". ")
    assert head == f"# {number}"
    found = _STATE.fullmatch(state)
    assert found, f"{FILES[number].name}: {state}"
    return Decision(
        title,
        found["word"].split()[0],
        linked(found["amends"]),
        linked(found["amended"]),
        linked(found["supersedes"]),
        linked(found["by"]),
    )


@pytest.mark.parametrize("number", FILES)
def test_an_amendment_is_named_by_both_decisions(number: int) -> None:
    this = decision(number)
    assert all(number in decision(other).amended for other in this.amends)
    assert all(number in decision(other).amends for other in this.amended)
    assert all(number in decision(other).superseded for other in this.supersedes)
    assert all(number in decision(other).supersedes for other in this.superseded)
    assert all(other < number for other in this.amends | this.supersedes)


def test_the_index_has_each_decision_once_with_its_title_and_state() -> None:
    rows = list(_ROW.finditer((DECISIONS / "README.md").read_text(encoding="utf-8")))
    assert sorted(int(row["number"]) for row in rows) == list(FILES)
    for row in rows:
        number = int(row["number"])
        this = decision(number)
        assert (row["file"], row["title"]) == (FILES[number].name, this.title)
        assert row["state"].startswith(this.word), number
        assert linked(row["state"]) == this.amended | this.superseded, number


def test_the_index_has_rooms_and_their_folders_exist() -> None:
    rooms = (DECISIONS / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for room in rooms:
        name, _, folders, *_ = room.splitlines()
        assert _ROW.search(room), name
        named = re.findall(r"`([^`]+)`", folders)
        assert named, name
        assert [folder for folder in named if not (DECISIONS.parents[1] / folder).is_dir()] == []
