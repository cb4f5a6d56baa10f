"""How the product is sized: few entries a folder, few lines a file, few parameters a constructor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("sparkapp", "operator", "dev", "demo", "images")
MAX_ENTRIES = 12
MAX_LINES = 400
MAX_PARAMETERS = 7
UNTYPED = frozenset({"dict[str, Any]", "Mapping[str, Any]"})
SOURCES = frozenset({".py", ".pyi", ".c", ".h", ".go"})
NOT_COUNTED = frozenset({"__init__.py", "py.typed", "__pycache__"})

TOO_LONG: frozenset[str] = frozenset()
"""Files that are not split yet. The set only shrinks, to nothing."""

TOO_MANY = frozenset({"operator/kafkasparkjob_operator/controller/reconcile.py:Reconciler"})
"""Constructors that are not mended yet. The set only shrinks, to nothing."""


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


def constructors() -> Iterator[tuple[str, ast.arguments]]:
    """The parameters of each constructor of application and operator. A dataclass writes none."""
    for folder in folders():
        if folder.relative_to(ROOT).parts[0] not in {"sparkapp", "operator"}:
            continue
        for path in sorted(folder.glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    made = (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
                    yield from ((f"{name_of(path)}:{node.name}", each.args) for each in made)


def test_a_constructor_has_at_most_seven_parameters() -> None:
    """Parts that belong together are a value: a context, or a frozen dataclass."""
    counts = {
        name: len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1 for name, given in constructors()
    }
    many = {name: count for name, count in counts.items() if count > MAX_PARAMETERS}
    unlisted = {name: count for name, count in many.items() if name not in TOO_MANY}
    assert not unlisted, f"more than {MAX_PARAMETERS} parameters: {unlisted}"
    mended = sorted(TOO_MANY - many.keys())
    assert not mended, f"take these out of the set of wide constructors: {mended}"


def test_no_constructor_takes_a_dictionary_of_parts() -> None:
    """It has neither their types nor their number."""
    taking = [
        name
        for name, given in constructors()
        if given.kwarg is not None
        or any(each.annotation and ast.unparse(each.annotation) in UNTYPED for each in (*given.args, *given.kwonlyargs))
    ]
    assert not taking
