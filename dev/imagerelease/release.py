"""Builds of images by their Containerfiles alone, with the locked versions of all packages."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.images import base_image
from localcluster.images.buildah import Buildah
from localcluster.images.builder import Image
from localcluster.images.oci import Layout
from localcluster.machine import packages
from localcluster.progress import Progress
from localcluster.settings import REPOSITORY, Settings

LOGS = REPOSITORY / "artifacts" / "logs"
"""Logs of builds that have failed."""


@dataclass(frozen=True)
class Source:
    """Where the packages come from.

    :param base_image: with its digest; empty makes one from the archive of this machine.
    :param archive: a snapshot archive by date; empty for the sources of the base image.
    """

    base_image: str = ""
    archive: str = ""


def build_from_nothing(image: Image, source: Source, folder: Path) -> Layout:
    """Builds ``image`` without a layer, a package or a folder of an earlier build.

    :returns: the image as an OCI layout in ``folder``, in a folder with its name.
    :raises SetupError: the build failed, for instance because the archive no longer has a locked version. Its log is in
        :data:`LOGS`.
    """
    storage = folder / "storage"
    settings = Settings(cache=storage / "cache", state=folder / "logs", run=storage / "run")
    packages.ensure(packages.IMAGES, settings, Progress())
    try:
        return build(image, source, settings, folder / image.name)
    except SetupError as error:
        _keep_log(error)
        raise
    finally:
        Buildah(settings).unmount()
        shutil.rmtree(storage, ignore_errors=True)


def _keep_log(error: SetupError) -> None:
    """Moves the log of a failed build out of the folder of the build, which callers delete."""
    if error.log is not None and error.log.exists():
        LOGS.mkdir(parents=True, exist_ok=True)
        error.log = Path(shutil.copy(error.log, LOGS))


def build(image: Image, source: Source, settings: Settings, folder: Path) -> Layout:
    """Builds ``image`` in the builder's storage of ``settings``, from the base image that it has.

    :returns: the image as an OCI layout in ``folder``, which is replaced.
    :raises SetupError: the build failed.
    """
    buildah, progress = Buildah(settings), Progress()
    base = source.base_image or base_image.ensure(settings, buildah, progress)
    reference = f"{image.reference}-release"
    with progress.step(f"build the image {image.name}"):
        arguments = {"BASE_IMAGE": base, "DEBIAN_ARCHIVE": source.archive}
        buildah.build(image.containerfile, reference, arguments=arguments)
        shutil.rmtree(folder, ignore_errors=True)
        layout = buildah.export(reference, image.name, folder)
        buildah.remove(reference)
    return layout
