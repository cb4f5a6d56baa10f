"""The commands of a tutorial: reads them from its page, runs them in a shell, compares what they print."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL, TUTORIAL_OF_STATE = _DOCS / "tutorial.md", _DOCS / "tutorial-state.md"
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"Replace `([\w.]+)`:")
_SECONDS = 900


@dataclass(frozen=True)
class Step:
    """A command of the page with lines that it prints. ``…`` stands for any text."""

    command: str
    printed: tuple[str, ...]


@dataclass(frozen=True)
class NewFile:
    """A file that the reader writes."""

    name: str
    text: str


def section(page: Path, number: int) -> list[Step | NewFile]:
    """What the reader does in a numbered section of a page."""
    (text,) = re.findall(rf"^## {number}\. .*?(?=^## |\Z)", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found: list[Step | NewFile] = []
    for block in _BLOCK.finditer(text):
        if block[1] == "python":
            found.append(NewFile(_FILE.findall(text[: block.start()])[-1], block[2]))
        else:
            found += _steps(block[2])
    assert found, f"section {number} of {page.name} has no commands"
    return found


def _steps(block: str) -> Iterator[Step]:
    first, *commands = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert first == "", block
    for command in commands:
        line, *printed = command.splitlines()
        yield Step(line, tuple(filter(None, printed)))


class Reader:
    """A person who types the commands of a page, in a folder of their own.

    :param page: the tutorial.
    :param replaced: texts of the page that the person replaces.
    :ivar variables: of the shell.
    """

    def __init__(
        self, page: Path, folder: Path, variables: Mapping[str, str], replaced: Mapping[str, str] | None = None
    ) -> None:
        self._page = page
        self.folder = folder
        self._replaced = dict(replaced or {})
        programs = folder / "bin"
        programs.mkdir()
        for name, module in (("kafkaspark", "-m kafkaspark"), ("python", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.variables = {**os.environ, **variables, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        self._place = folder

    def does(self, number: int) -> None:
        """Does a section, and compares what it prints."""
        for each in section(self._page, number):
            if isinstance(each, NewFile):
                (self._place / each.name).write_text(each.text, encoding="utf-8")
            else:
                self._runs(each)

    def writes_files_of(self, number: int) -> None:
        """Writes the files of a section, and runs none of its commands."""
        for each in section(self._page, number):
            if isinstance(each, NewFile):
                (self._place / each.name).write_text(each.text, encoding="utf-8")

    def replaces(self, texts: Mapping[str, str]) -> None:
        """From here on these texts of the page are others."""
        self._replaced |= texts

    def edits(self, name: str, old: str, new: str) -> None:
        """Replaces a text of a file."""
        file = self._place / name
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{name} has no {old}"
        file.write_text(text.replace(old, new), encoding="utf-8")

    def _runs(self, step: Step) -> None:
        command = self._with_replaced(step.command)
        if command.startswith("cd "):
            self._place /= command.removeprefix("cd ")
            return
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self.variables[name] = value
            return
        ran = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], cwd=self._place, env=self.variables, capture_output=True,
            text=True, check=False, timeout=_SECONDS,
        )  # fmt: skip
        printed = ran.stdout + ran.stderr
        assert ran.returncode == 0, f"$ {command}\n{printed}"
        # The standard error is behind the standard output here, and between its lines in a terminal.
        for wanted in map(self._with_replaced, step.printed):
            pattern = ".*".join(map(re.escape, wanted.split("…")))
            assert re.search(pattern, printed), f"$ {command}\n{printed}\nhas not: {wanted}"

    def _with_replaced(self, text: str) -> str:
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text
