"""Downloads from Maven's repository."""

from __future__ import annotations

import hashlib
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.machine.commands import run


def copy_dependencies(pom: str, folder: Path, *, log: Path) -> None:
    """Writes the POM into the folder, and downloads the files of its dependencies to there.

    :param log: of Maven's output.
    :raises SetupError: a download failed.
    """
    (folder / "pom.xml").write_text(pom)
    run(
        ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"],
        cwd=folder,
        log=log,
        hint="check that Maven's central repository is reachable, then run the same command again",
    )


def require_checksum(file: Path, sha256: str, *, group: str) -> None:
    """Compares a downloaded file with what was recorded.

    :param group: of the file in Maven's repository, as ``org.apache.hadoop``.
    :raises SetupError: it has another content.
    """
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != sha256:
        raise SetupError(
            f"{file.name} has the checksum {found}, not {sha256}",
            hint=f"delete {group.replace('.', '/')} in Maven's repository (~/.m2), then run the same command again",
        )
