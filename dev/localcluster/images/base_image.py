"""A base image like the public Debian image, for machines that reach Debian's packages but no image registry.

Its packages are the newest of the archive. The Containerfiles then install the versions of ``locks/debian``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from localcluster.images.buildah import Buildah
from localcluster.images.source_date import source_date_epoch
from localcluster.machine.commands import run
from localcluster.progress import Progress
from localcluster.settings import Settings

SUITE = "bookworm"
IMAGE = f"localhost/kafkaspark/base:{SUITE}-4"
# The public "slim" image leaves these out, too.
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
_CONTAINERFILE = "FROM scratch\nADD base.tar /\n"


def ensure(settings: Settings, buildah: Buildah, progress: Progress) -> str:
    """The name of the base image, which is built if it does not exist.

    :raises SetupError: a package cannot be downloaded.
    """
    if not buildah.has(IMAGE):
        with progress.step("build the base image from Debian packages"), tempfile.TemporaryDirectory() as folder:
            excluded = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
            kept = ["--dpkgopt=path-include=/usr/share/doc/*/copyright", '--aptopt=Acquire::Languages "none"']
            # As in the public image: an unfinished image is never used, so dpkg does not have to sync.
            quick = "--dpkgopt=force-unsafe-io"
            # mmdebstrap copies the names of this machine into the image.
            nameless = '--customize-hook=rm -f "$1/etc/hostname" "$1/etc/resolv.conf"'
            archive = Path(folder) / "base.tar"
            run(
                ["mmdebstrap", "--variant=minbase", "--mode=root", *excluded, *kept, quick, nameless, SUITE, archive],
                log=settings.logs / "base-image.log",
                hint="check that Debian's package mirror is reachable, then run the same command again",
                environment={"SOURCE_DATE_EPOCH": str(source_date_epoch())},
            )
            containerfile = Path(folder) / "Containerfile"
            containerfile.write_text(_CONTAINERFILE)
            buildah.build(containerfile, IMAGE, context=Path(folder))
    return IMAGE
