"""Removes the control groups that kubelet leaves behind."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PODS = "kubepods"


def remove_empty(root: Path = _ROOT) -> None:
    """Removes the empty groups of pods in every hierarchy. A group with processes is not ours and stays."""
    for pods in [root / _PODS, *root.glob(f"*/{_PODS}")]:
        for folder, _, _ in os.walk(pods, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
