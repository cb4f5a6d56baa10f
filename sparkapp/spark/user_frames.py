"""Which lines of a traceback are the user's: everything outside this program, PySpark and Python itself."""

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
    """An exception that the user's code raised, or what it called.

    :param raised: as Python prints it: ``ValueError: bad amount``.
    :param traceback: the whole one.
    """

    frame: Frame
    raised: str
    traceback: str


def user_error(text: str) -> UserError | None:
    """The last traceback in a text of Spark's that passes through the user's code; None without one."""
    for found in reversed(_TRACEBACK.findall(text)):
        frame = user_frame([Frame(file, int(line), function) for file, line, function in _FRAME.findall(found)])
        if frame is not None:
            return UserError(frame, found.rstrip().splitlines()[-1].strip(), found)
    return None


def frames_of(error: BaseException) -> list[Frame]:
    """The frames of a Python exception of this process, outermost first."""
    return [Frame(one.filename, one.lineno or 0, one.name) for one in traceback.extract_tb(error.__traceback__)]


def user_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's: of a library only where no module of their own is involved."""
    theirs = [one for one in frames if not _is_ours(one.file)]
    own = [one for one in theirs if "site-packages" not in Path(one.file).parts]
    found = own or theirs
    return found[-1] if found else None


def _is_ours(file: str) -> bool:
    if file.startswith("<"):
        return True
    parts = Path(file).parts
    if {"pyspark", "pyspark.zip", "py4j", "sparkapp"} & set(parts) or file.startswith(_PACKAGE):
        return True
    return file.startswith(_STANDARD) and "site-packages" not in parts
