"""Finds the lines of a traceback that are the user's: everything outside this program, PySpark and Python."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[1])
_STANDARD = sysconfig.get_path("stdlib")
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (.+)$', re.MULTILINE)
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+[^\s].*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class UserError:
    """An exception of the user's code or of a library that it called.

    :param raised: as Python prints it: ``ValueError: bad amount``.
    :param traceback: all of its text.
    """

    frame: Frame
    raised: str
    traceback: str


def user_error(text: str) -> UserError | None:
    """The last traceback in Spark's text that has a line of the user's code; None if there is none."""
    for found in reversed(_TRACEBACK.findall(text)):
        frame = user_frame([Frame(file, int(line), function) for file, line, function in _FRAME.findall(found)])
        if frame is not None:
            return UserError(frame, found.rstrip().splitlines()[-1].strip(), found)
    return None


def frames_of(error: BaseException) -> list[Frame]:
    """The frames of a Python exception of this process, outermost first."""
    return [Frame(line.filename, line.lineno or 0, line.name) for line in traceback.extract_tb(error.__traceback__)]


def user_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's code; a library's frame only if no module of the user is involved."""
    theirs = [frame for frame in frames if not _is_ours(frame.file)]
    own = [frame for frame in theirs if "site-packages" not in Path(frame.file).parts]
    found = own or theirs
    return found[-1] if found else None


def _is_ours(file: str) -> bool:
    if file.startswith("<"):
        return True
    parts = Path(file).parts
    if {"pyspark", "pyspark.zip", "py4j", "sparkapp"} & set(parts) or file.startswith(_PACKAGE):
        return True
    return file.startswith(_STANDARD) and "site-packages" not in parts
