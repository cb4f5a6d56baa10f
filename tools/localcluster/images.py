"""The project's images: built when something they are made of has changed, and loaded into the cluster."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from localcluster import base_image, packages, python_trees
from localcluster.buildah import Buildah
from localcluster.oci import Layout
from localcluster.progress import Progress
from localcluster.python_trees import PythonTrees
from localcluster.settings import REPOSITORY, Settings

NAMES = ("sparkapp", "operator")


@dataclass(frozen=True)
class Image:
    """One of the project's images."""

    name: str

    @property
    def reference(self) -> str:
        """What pods name it; never to be pulled, there is no such registry."""
        return f"localhost/kafkaspark/{self.name}:dev"

    @property
    def dependencies_reference(self) -> str:
        """The image without the project's own code."""
        return f"localhost/kafkaspark/{self.name}-dependencies"

    @property
    def folder(self) -> Path:
        """Where its Containerfile is, and what else goes into it."""
        return REPOSITORY / "images" / self.name

    @property
    def containerfile(self) -> Path:
        """The recipe."""
        return self.folder / "Containerfile"

    def key(self) -> str:
        """Names one state of everything that the image is made of."""
        content = hashlib.sha256()
        for file in sorted(each for each in self.folder.iterdir() if each.is_file()):
            content.update(file.name.encode() + b"\0" + file.read_bytes())
        content.update((REPOSITORY / "locks" / f"{self.name}.txt").read_bytes())
        content.update(f"{base_image.IMAGE} {python_trees.application_key()}".encode())
        return content.hexdigest()[:16]


IMAGES = tuple(Image(name) for name in NAMES)


class ImageBuilder:
    """Builds the images on this machine with buildah."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        """Describes; builds nothing."""
        self._settings = settings
        self._progress = progress
        self._buildah = Buildah(settings)
        self._trees = PythonTrees(settings, progress)

    def build(self, image: Image) -> Layout:
        """The built image: the kept one when nothing it is made of has changed.

        :raises SetupError: the build failed.
        """
        key = image.key()
        kept = self._buildah.exported(image.name)
        if kept is not None and read_keys(self._settings).get(image.name) == key:
            return kept
        packages.ensure(packages.IMAGES, self._settings, self._progress)
        dependencies = self._build_dependencies(image)
        with self._progress.step(f"build the image {image.reference}"):
            self._buildah.build(
                image.containerfile,
                image.reference,
                contexts={
                    "dependencies": f"container-image://{dependencies}",
                    **self._application_context(),
                },
                cache_layers=False,
            )
            layout = self._buildah.export(image.reference, image.name)
            self._buildah.keep_only(image.reference)
            self._buildah.let_go()
        remember_key(self._settings, image, key)
        return layout

    def prepare(self, image: Image) -> Layout:
        """Makes what the image needs besides the project's own code, so that a later build is short.

        :raises SetupError: the build failed.
        """
        packages.ensure(packages.IMAGES, self._settings, self._progress)
        return self._buildah.export(self._build_dependencies(image), image.name)

    def _build_dependencies(self, image: Image) -> str:
        key = hashlib.sha256(
            f"{base_image.IMAGE} {self._trees.site_packages_key(image.name)}".encode()
            + image.containerfile.read_bytes()
            + b"".join(file.read_bytes() for file in sorted(image.folder.glob("*.py")))
        ).hexdigest()[:16]
        reference = f"{image.dependencies_reference}:{key}"
        if not self._buildah.has(reference):
            base = base_image.ensure(self._settings, self._buildah, self._progress)
            contexts = {}
            if python_trees.host_can_build():
                contexts["site-packages"] = str(self._trees.site_packages(image.name))
            with self._progress.step(f"build the image of {image.name}'s dependencies"):
                self._buildah.build(
                    image.containerfile,
                    reference,
                    target="dependencies",
                    arguments={"BASE_IMAGE": base},
                    contexts=contexts,
                )
                self._buildah.keep_only(reference)
        return reference

    def _application_context(self) -> dict[str, str]:
        if python_trees.host_can_build():
            return {"application": str(self._trees.application())}
        return {}


def read_keys(settings: Settings) -> dict[str, str]:
    """What each image was last built from, by the image's name; also tells the demo when to restart the operator."""
    try:
        keys: dict[str, str] = json.loads(_keys_file(settings).read_text())
    except (OSError, ValueError):
        return {}
    return keys


def remember_key(settings: Settings, image: Image, key: str) -> None:
    """Notes what an image has been built from."""
    _keys_file(settings).write_text(json.dumps({**read_keys(settings), image.name: key}))


def _keys_file(settings: Settings) -> Path:
    return settings.cache / "image-keys.json"
