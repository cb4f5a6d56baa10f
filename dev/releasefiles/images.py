"""The images of a release as OCI archives, each with its bill of materials."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from imagerelease.bill_of_materials import attach
from imagerelease.release import Source, build_from_nothing
from localcluster.images.builder import NAMES, Image
from localcluster.images.oci import Layout
from localcluster.settings import REPOSITORY
from releasefiles.archives import write_tar
from sparkapp import __version__

DIGESTS = "image-digests.json"


def write_images(folder: Path, *, base_image: str = "", archive: str = "", names: Sequence[str] = NAMES) -> None:
    """Builds the images from nothing. Writes an archive and a bill of materials of each, and the digests.

    :param base_image: and ``archive``: see :class:`imagerelease.release.Source`.
    :raises SetupError: a build failed.
    """
    digests = {}
    # Below the repository: an image is gigabytes, and the folder for temporary files may be in memory.
    (REPOSITORY / "artifacts").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=REPOSITORY / "artifacts") as work:
        for name in names:
            image = Image(name)
            layout = build_from_nothing(image, Source(base_image, archive), Path(work))
            publish(layout, attach(image, layout), folder, name, __version__)
            digests[name] = layout.digest
    (folder / DIGESTS).write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")


def publish(layout: Layout, bill: Path, folder: Path, name: str, version: str) -> None:
    """Writes ``NAME-VERSION.oci.tar`` of an image with its referrers, and ``NAME-VERSION.cdx.json``.

    The tag in the archive is the version: ``ctr images import --base-name`` takes an image's name from there.

    :param bill: the file of the bill of materials.
    """
    layout.rename(version)
    shutil.copyfile(bill, folder / f"{name}-{version}.cdx.json")
    with (folder / f"{name}-{version}.oci.tar").open("wb") as target:
        write_tar(layout.folder, target)
