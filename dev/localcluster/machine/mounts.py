"""Finds and unmounts the mounts below folders, deepest first, so that the folders can be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from localcluster.machine.commands import succeeds

_MOUNTPOINT_FIELD = 4  # of /proc/self/mountinfo


def below(folders: Iterable[Path], mountinfo: str | None = None) -> list[Path]:
    """The mount points below ``folders``, in the order in which they can be unmounted."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    roots = list(folders)
    points = [Path(_unescape(line.split()[_MOUNTPOINT_FIELD])) for line in text.splitlines()]
    ours = [point for point in points if any(point.is_relative_to(root) for root in roots)]
    return list(reversed(ours))  # the kernel lists them in the order in which they were mounted


def unmount_below(*folders: Path) -> None:
    """Unmounts everything below ``folders``. A busy mount is detached, and removed with its last user."""
    for point in below(folders):
        if not succeeds(["umount", point]):
            succeeds(["umount", "--lazy", point])


def _unescape(field: str) -> str:
    return field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
