"""The image builder of machines without a Docker engine: buildah, with its own storage in the cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from localcluster.images.oci import Layout
from localcluster.images.source_date import source_date_epoch
from localcluster.machine import mounts
from localcluster.machine.commands import output_of, run, succeeds
from localcluster.settings import REPOSITORY, Settings


class Buildah:
    """Builds images from Containerfiles and exports them as OCI layouts."""

    def __init__(self, settings: Settings) -> None:
        """Names the folders; builds nothing."""
        self._logs = settings.logs
        self._root = settings.cache / "buildah"
        self._run_root = settings.run / "buildah"
        self._layouts = settings.cache / "layouts"

    def has(self, image: str) -> bool:
        """Whether ``image`` was built before."""
        return succeeds([*self.command(), "inspect", "--type=image", image])

    def build(
        self,
        containerfile: Path,
        image: str,
        *,
        target: str = "",
        arguments: Mapping[str, str] | None = None,
        contexts: Mapping[str, str] | None = None,
        context: Path = REPOSITORY,
    ) -> None:
        """Builds ``image``, or just the stage ``target`` of it.

        ``contexts`` replaces stages by folders or images. Every file in the new layers has the same date.

        :raises SetupError: the build failed.
        """
        # buildah's cache of layers does not know the contents of bind mounts, and costs a commit for each step.
        options = ["--layers=false", f"--timestamp={source_date_epoch()}"]
        # The class archive is equal in two builds only if its build may schedule threads and fix addresses.
        options += ["--cap-add=CAP_SYS_NICE", "--security-opt=seccomp=unconfined"]
        # The certificates by which this machine trusts the Python package index.
        certificates = os.environ.get("SSL_CERT_FILE", "")
        options += [f"--secret=id=index-ca,src={certificates}"] if certificates else []
        options += [f"--target={target}"] if target else []
        options += [f"--build-arg={name}={value}" for name, value in (arguments or {}).items()]
        options += [f"--build-context={name}={value}" for name, value in (contexts or {}).items()]
        log = self._logs / f"build-image-{image.rpartition('/')[2].partition(':')[0]}.log"
        # chroot needs no network and no namespaces, so it works where containers cannot be nested.
        building = ["build", "--isolation=chroot", "--format=oci", *options]
        run([*self.command(), *building, f"--tag={image}", f"--file={containerfile}", context], log=log)

    def export(self, image: str, layout: str, folder: Path | None = None) -> Layout:
        """Writes ``image`` into the layout called ``layout``, by default a folder of the cache.

        Layers that exist there are not written again.

        :raises SetupError: the layout cannot be written.
        """
        folder = folder or self._layouts / layout
        folder.parent.mkdir(parents=True, exist_ok=True)
        # skopeo, because buildah's push compresses: a minute of work for a reader on the same disk.
        copying = ["skopeo", "copy", "--quiet", "--dest-oci-accept-uncompressed-layers"]
        source = f"containers-storage:[overlay@{self._root}+{self._run_root}]{image}"
        run([*copying, source, f"oci:{folder}:latest"], log=self._logs / f"export-image-{layout}.log")
        written = Layout(folder, "latest")
        written.discard_other_images()
        return written

    def exported(self, layout: str) -> Layout | None:
        """The layout that :meth:`export` wrote last, or None."""
        try:
            return Layout(self._layouts / layout, "latest")
        except (OSError, ValueError, LookupError):
            return None

    def keep_only(self, image: str) -> None:
        """Deletes the images that differ from ``image`` in their tag alone, and all images without a name."""
        repository = image.rpartition(":")[0]
        listed = output_of(
            [*self.command(), "images", "--format={{.Name}}:{{.Tag}}", f"--filter=reference={repository}"]
        )
        for other in listed.split():
            if other != image:
                succeeds([*self.command(), "rmi", other])
        succeeds([*self.command(), "rmi", "--prune", "--force"])

    def remove(self, image: str) -> None:
        """Deletes ``image``."""
        succeeds([*self.command(), "rmi", "--force", image])

    def unmount(self) -> None:
        """Unmounts the builder's mounts, so that its folder can be moved or deleted."""
        mounts.unmount_below(self._root)

    def command(self) -> list[str]:
        """The program with its storage; arguments follow."""
        return ["buildah", f"--root={self._root}", f"--runroot={self._run_root}", "--storage-driver=overlay"]
