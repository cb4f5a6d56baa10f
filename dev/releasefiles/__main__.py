"""``python -m releasefiles``: makes every file of a release in ``artifacts/release``, with the checksums of all."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.settings import REPOSITORY
from releasefiles.chart import write_chart
from releasefiles.images import write_images
from releasefiles.packages import write_packages
from releasefiles.site import write_site

CHECKSUMS = "SHA256SUMS"
_BLOCK = 1 << 20


def main(arguments: Sequence[str]) -> int:
    """Makes the files; the exit status is 2 after an error."""
    parser = argparse.ArgumentParser(prog="python -m releasefiles", description=__doc__)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "artifacts" / "release", metavar="FOLDER")
    parser.add_argument("--without-images", action="store_true", help="a quick try: images take most of the time")
    parser.add_argument("--base-image", default="", help="of the images, with its digest")
    parser.add_argument("--archive", default="", help="a snapshot archive of Debian")
    options = parser.parse_args(arguments)
    folder = options.output.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        write_packages(folder)
        write_chart(folder)
        write_site(folder)
        if not options.without_images:
            write_images(folder, base_image=options.base_image, archive=options.archive)
    except SetupError as error:
        print(error.report(), file=sys.stderr)
        return 2
    for name, digest in write_checksums(folder):
        print(f"{digest}  {name}")
    return 0


def write_checksums(folder: Path) -> list[tuple[str, str]]:
    """Writes ``SHA256SUMS`` of all files in the folder, as ``sha256sum --check`` reads it; returns its rows."""
    rows = []
    for file in sorted(folder.iterdir()):
        digest = hashlib.sha256()
        with file.open("rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
        rows.append((file.name, digest.hexdigest()))
    (folder / CHECKSUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in rows), encoding="utf-8")
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
