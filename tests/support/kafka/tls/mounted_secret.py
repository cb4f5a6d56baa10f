"""A Secret's folder in a pod, whose content is replaced at once, as the kubelet's AtomicWriter does."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path


def mount_secret(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes or replaces the files. They are links through ``..data``, which is moved to the new content."""
    folder.mkdir(parents=True, exist_ok=True)
    version = folder / f"..{uuid.uuid4().hex}"
    version.mkdir()
    for name, content in files.items():
        (version / name).write_bytes(content)
    link = folder / "..data_tmp"
    link.symlink_to(version.name)
    link.replace(folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    for gone in [path for path in folder.iterdir() if not path.name.startswith("..") and path.name not in files]:
        gone.unlink()
