"""The project's images, each built when one of its inputs has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster.images import base_image, python_trees
from localcluster.images.buildah import Buildah
from localcluster.images.oci import Layout
from localcluster.images.python_trees import PythonTrees
from localcluster.machine import packages
from localcluster.objectstore.client import StoreClasses
from localcluster.progress import Progress
from localcluster.settings import REPOSITORY, Settings

NAMES = ("sparkapp", "operator")
ARCHIVE: Mapping[str, str] = {"DEBIAN_ARCHIVE": "", "DEBIAN_LOCK": "newest"}
"""Debian's packages come from this machine's archive, which may no longer have a locked version."""


@dataclass(frozen=True)
class Image:
    """An image of the project.

    :param base: of an image that adds the classes for object stores to another; None for the others.
    """

    name: str
    base: Image | None = None

    @property
    def reference(self) -> str:
        """The name in pods. It can never be pulled, because no registry has it."""
        return f"localhost/kafkaspark/{self.name}:dev"

    @property
    def dependencies_reference(self) -> str:
        """The image without the project's own code."""
        return f"localhost/kafkaspark/{self.name}-dependencies"

    @property
    def folder(self) -> Path:
        """The folder of its Containerfile and other inputs."""
        return REPOSITORY / "images" / self.name

    @property
    def containerfile(self) -> Path:
        """Its Containerfile."""
        return self.folder / "Containerfile"

    def key(self) -> str:
        """A hash of all inputs of the image."""
        content = hashlib.sha256()
        for file in sorted(file for file in self.folder.iterdir() if file.is_file()):
            content.update(file.name.encode() + b"\0" + file.read_bytes())
        if self.base is not None:
            content.update(f"{self.base.key()} {StoreClasses.name()}".encode())
            return content.hexdigest()[:16]
        content.update(f"{self.dependencies_key()} {python_trees.application_key()}".encode())
        return content.hexdigest()[:16]

    def dependencies_key(self) -> str:
        """A hash of the inputs of the image without the project's own code."""
        locks = REPOSITORY / "locks"
        inputs = [self.containerfile, *self.folder.glob("*.py"), *self.folder.glob("*.list"), locks / "build.txt"]
        inputs += [locks / f"{self.name}.txt", *(locks / "debian").iterdir()]
        inputs += [file for file in (REPOSITORY / "images" / "common").iterdir() if file.is_file()]
        content = hashlib.sha256(base_image.IMAGE.encode())
        for file in sorted(inputs):
            content.update(file.name.encode() + b"\0" + file.read_bytes())
        return content.hexdigest()[:16]


IMAGES = tuple(Image(name) for name in NAMES)
STORE_IMAGE = Image("sparkapp-s3", base=Image("sparkapp"))
"""For jobs whose state is in an object store."""


class ImageBuilder:
    """Builds the images on this machine with buildah."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        """Prepares the builder; builds nothing."""
        self._settings = settings
        self._progress = progress
        self._buildah = Buildah(settings)
        self._trees = PythonTrees(settings, progress)

    def build(self, image: Image) -> Layout:
        """The built image. It is built only when an input has changed.

        :raises SetupError: the build failed.
        """
        key = image.key()
        kept = self._buildah.exported(image.name)
        if kept is not None and read_keys(self._settings).get(image.name) == key:
            return kept
        packages.ensure(packages.IMAGES, self._settings, self._progress)
        if image.base is not None:
            return self._build_on(image, image.base, key)
        dependencies = self._build_dependencies(image)
        with self._progress.step(f"build the image {image.reference}"):
            self._buildah.build(
                image.containerfile,
                image.reference,
                contexts={
                    "dependencies": f"container-image://{dependencies}",
                    **self._application_context(),
                },
            )
            layout = self._buildah.export(image.reference, image.name)
            self._buildah.keep_only(image.reference)
            self._buildah.unmount()
        remember_key(self._settings, image, key)
        return layout

    def prepare(self, image: Image) -> Layout:
        """Builds the image's dependencies without the project's own code, so that a later build is short.

        :raises SetupError: the build failed.
        """
        packages.ensure(packages.IMAGES, self._settings, self._progress)
        return self._buildah.export(self._build_dependencies(image), image.name)

    def _build_on(self, image: Image, base: Image, key: str) -> Layout:
        if not self._buildah.has(base.reference) or read_keys(self._settings).get(base.name) != base.key():
            self.build(base)
        arguments, contexts = store_inputs(self._settings, self._progress, base)
        with self._progress.step(f"build the image {image.reference}"):
            self._buildah.build(
                image.containerfile, image.reference, arguments=arguments, contexts=contexts, context=image.folder
            )
            layout = self._buildah.export(image.reference, image.name)
            self._buildah.keep_only(image.reference)
            self._buildah.unmount()
        remember_key(self._settings, image, key)
        return layout

    def _build_dependencies(self, image: Image) -> str:
        reference = f"{image.dependencies_reference}:{image.dependencies_key()}"
        if not self._buildah.has(reference):
            base = base_image.ensure(self._settings, self._buildah, self._progress)
            contexts = {}
            if python_trees.host_can_build():
                contexts["site-packages"] = str(self._trees.site_packages(image.name))
            with self._progress.step(f"build the dependencies of image {image.name}"):
                self._buildah.build(
                    image.containerfile,
                    reference,
                    target="dependencies",
                    arguments={"BASE_IMAGE": base, **ARCHIVE},
                    contexts=contexts,
                )
                self._buildah.keep_only(reference)
        return reference

    def _application_context(self) -> dict[str, str]:
        if python_trees.host_can_build():
            return {"application": str(self._trees.application())}
        return {}


def store_inputs(settings: Settings, progress: Progress, base: Image) -> tuple[dict[str, str], dict[str, str]]:
    """Arguments and contexts of a build of :data:`STORE_IMAGE`.

    :raises SetupError: the classes cannot be downloaded.
    """
    classes = StoreClasses.of(settings)
    classes.fetch(settings, progress)
    return {"SPARKAPP": base.reference}, {"classes": str(classes.folder)}


def read_keys(settings: Settings) -> dict[str, str]:
    """The inputs' hash of each image's last build, by the image's name. A new hash restarts the demo's operator."""
    try:
        keys: dict[str, str] = json.loads(_keys_file(settings).read_text())
    except (OSError, ValueError):
        return {}
    return keys


def remember_key(settings: Settings, image: Image, key: str) -> None:
    """Stores the inputs' hash of an image's build."""
    _keys_file(settings).write_text(json.dumps({**read_keys(settings), image.name: key}))


def _keys_file(settings: Settings) -> Path:
    return settings.cache / "image-keys.json"
