"""Names in Python: a test's fits a line, and no variable is called `one`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "demo", "dev", "images", "operator", "sparkapp", "tests")
MOST_LETTERS = 79


@cache
def tree_of(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(*folders: str) -> Iterator[tuple[str, ast.AST]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), tree_of(path)


def test_names_of_tests_fit_a_line() -> None:
    long = [
        f"{path}::{node.name}"
        for path, tree in modules("tests")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and len(node.name) > MOST_LETTERS
    ]
    assert long == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_variable_is_called_one(folder: str) -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in modules(folder)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id == "one") or (isinstance(node, ast.arg) and node.arg == "one")
    ]
    assert found == []
