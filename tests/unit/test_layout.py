"""How the product's folders and files are sized: few entries a folder, few lines a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("sparkapp", "operator", "dev", "demo", "images")
MAX_ENTRIES = 12
MAX_LINES = 400
SOURCES = frozenset({".py", ".pyi", ".c", ".h", ".go"})
NOT_COUNTED = frozenset({"__init__.py", "py.typed", "__pycache__"})

TOO_LONG: frozenset[str] = frozenset()
"""Files that are not split yet. The set only shrinks, to nothing."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_counted(path: Path) -> bool:
    """Whether it is an entry of its folder. A folder of which a checkout left only compiled files is none."""
    if path.name in NOT_COUNTED or path.suffix in {".so", ".egg-info"} or path.name.startswith("."):
        return False
    return path.is_file() or any(is_counted(entry) for entry in path.iterdir())


def folders() -> Iterator[Path]:
    """Every folder of the product that holds something."""
    waiting = [ROOT / name for name in PRODUCT]
    while waiting:
        folder = waiting.pop()
        yield folder
        waiting += [path for path in folder.iterdir() if path.is_dir() and is_counted(path)]


@pytest.mark.parametrize("folder", sorted(map(name_of, folders())))
def test_a_folder_holds_at_most_twelve_modules_and_folders(folder: str) -> None:
    entries = sorted(path.name for path in (ROOT / folder).iterdir() if is_counted(path))
    assert len(entries) <= MAX_ENTRIES, f"{len(entries)} entries: {', '.join(entries)}"


def test_a_file_has_at_most_four_hundred_lines() -> None:
    sources = [path for folder in folders() for path in folder.iterdir() if path.suffix in SOURCES]
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources}
    long = {name: length for name, length in lengths.items() if length > MAX_LINES}
    unlisted = {name: length for name, length in long.items() if name not in TOO_LONG}
    assert not unlisted, f"longer than {MAX_LINES} lines: {unlisted}"
    split = sorted(TOO_LONG - long.keys())
    assert not split, f"take these out of the set of long files: {split}"
