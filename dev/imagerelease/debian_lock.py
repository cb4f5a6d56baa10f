"""The files of ``locks/debian``: the Debian packages of each image, with versions and hashes.

The first line of a file names the packages that are wanted. ``sha256sum --check`` reads the other lines. Each has the
hash of a package of the image, and the name of its file, which contains the version.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.images import base_image
from localcluster.settings import REPOSITORY

LOCKS = REPOSITORY / "locks" / "debian"
CONTAINERFILES = sorted((REPOSITORY / "images").glob("*/Containerfile"))
_EPOCH = re.compile(r"^(ARG SOURCE_DATE_EPOCH=)\d+$", re.MULTILINE)
_LINE = re.compile(r"(?P<hash>[0-9a-f]{64})  (?P<name>[^_]+)_(?P<version>[^_]+)_(?P<architecture>[a-z0-9]+)\.deb")


def wanted(lock: Path) -> list[str]:
    """The packages that the first line of ``lock`` names."""
    return lock.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").split()


def hashes(lock: Path) -> dict[tuple[str, str], str]:
    """The SHA-256 of each package of ``lock``, by name and version."""
    matches = (_LINE.fullmatch(line) for line in lock.read_text(encoding="utf-8").splitlines())
    return {(match["name"], match["version"].replace("%3a", ":")): match["hash"] for match in matches if match}


def write_locks() -> None:
    """Writes the newest versions of Debian's archive into each lock, and their date into the Containerfiles.

    The date is the midnight after the newest of the archive's suites, so that a snapshot of that date has the versions.

    :raises SetupError: a package cannot be downloaded.
    """
    dates: list[datetime] = []
    for lock in sorted(LOCKS.glob("*.sha256")):
        names = wanted(lock)
        index, releases = _resolve(names)
        lines = sorted(set(_lines(index)), key=lambda line: line.split("  ")[1])
        lock.write_text(f"# {' '.join(names)}\n" + "".join(f"{line}\n" for line in lines), encoding="utf-8")
        dates += [parsedate_to_datetime(text) for text in re.findall(r"^Date: (.*)$", releases, re.MULTILINE)]
        print(f"{lock.relative_to(REPOSITORY)}: {len(lines)} packages")
    day = max(dates).astimezone(UTC).replace(hour=0, minute=0, second=0) + timedelta(days=1)
    for file in CONTAINERFILES:
        text = file.read_text(encoding="utf-8")
        file.write_text(_EPOCH.sub(rf"\g<1>{int(day.timestamp())}", text), encoding="utf-8")
    print(f"snapshot of {day:%Y-%m-%d}")


def _resolve(names: list[str]) -> tuple[str, str]:
    """The index of the packages that a minimal system with ``names`` has, and the suites' release files."""
    with tempfile.TemporaryDirectory() as folder:
        index, releases = Path(folder) / "index", Path(folder) / "releases"
        installed = """chroot "$1" dpkg-query --show --showformat='${Package}=${Version} '"""
        hooks = [
            # The JRE's installation fails without the folder of its manual pages.
            '--essential-hook=mkdir -p "$1/usr/share/man/man1"',
            f'--customize-hook=APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-cache show $({installed}) > {index}',
            f'--customize-hook=cat "$1"/var/lib/apt/lists/*InRelease > {releases}',
        ]
        command = ["mmdebstrap", "--variant=minbase", "--mode=root", f"--include={','.join(names)}", *hooks]
        options = ['--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io", "--format=null"]
        done = subprocess.run(
            [*command, *options, base_image.SUITE, "/dev/null"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SetupError(f"mmdebstrap ended with status {done.returncode}: {done.stderr[-2000:]}")
        return index.read_text(encoding="utf-8"), releases.read_text(encoding="utf-8")


def _lines(index: str) -> Iterator[str]:
    for stanza in index.split("\n\n"):
        fields: Mapping[str, str] = dict(re.findall(r"^([\w-]+): (.*)$", stanza, re.MULTILINE))
        if "SHA256" in fields:
            version = fields["Version"].replace(":", "%3a")
            yield f"{fields['SHA256']}  {fields['Package']}_{version}_{fields['Architecture']}.deb"
