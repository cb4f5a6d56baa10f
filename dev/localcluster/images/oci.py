"""Container images as archives: built from a program, or copied from an OCI layout without known layers."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

_LAYOUT = json.dumps({"imageLayoutVersion": "1.0.0"}).encode()
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_EMPTY = "application/vnd.oci.empty.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_TAG = "org.opencontainers.image.ref.name"
_EXECUTABLE = 0o755


def digest_of(content: bytes) -> str:
    """The digest of a blob, which is its name."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def write_single_program_image(archive: IO[bytes], name: str, program: Path, user: str) -> None:
    """Writes an image that holds a statically linked program alone, and runs it.

    Used for the pause image, before any image builder is installed.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        member = tarfile.TarInfo(program.name)
        member.mode = _EXECUTABLE
        member.size = program.stat().st_size
        with program.open("rb") as content:
            files.addfile(member, content)
    blobs = [layer.getvalue()]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "User": user},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(blobs[0])]},
    }
    blobs.append(json.dumps(config).encode())
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _descriptor(_CONFIG, blobs[1]),
        "layers": [_descriptor(_LAYER, blobs[0])],
    }
    blobs.append(json.dumps(manifest).encode())
    index = _index(name, _descriptor(_MANIFEST, blobs[2]))
    with tarfile.open(fileobj=archive, mode="w|") as files:
        _add(files, "oci-layout", _LAYOUT)
        _add(files, "index.json", index)
        for blob in blobs:
            _add(files, f"blobs/{digest_of(blob).replace(':', '/')}", blob)


class Layout:
    """An image as an OCI layout: a folder of blobs with an index."""

    def __init__(self, folder: Path, tag: str) -> None:
        """Reads the manifest called ``tag`` of the layout in ``folder``.

        :raises LookupError: there is no such manifest.
        """
        self.folder = folder
        index = json.loads((folder / "index.json").read_bytes())
        for entry in index["manifests"]:
            if entry.get("annotations", {}).get(_TAG) == tag:
                self._entry: Mapping[str, Any] = entry
                break
        else:
            raise LookupError(f"no manifest {tag} in {folder}")
        self._manifest: Mapping[str, Any] = json.loads(self._blob(self.digest).read_bytes())

    @property
    def digest(self) -> str:
        """The digest of the image's manifest: its identity."""
        return str(self._entry["digest"])

    def blobs(self) -> list[str]:
        """The digests of the image's manifest, configuration and layers."""
        layers = [str(layer["digest"]) for layer in self._manifest["layers"]]
        return [self.digest, str(self._manifest["config"]["digest"]), *layers]

    def layers(self) -> list[Path]:
        """The files of the image's layers, the lowest first."""
        return [self._blob(str(layer["digest"])) for layer in self._manifest["layers"]]

    def config(self) -> Any:
        """The image's configuration: user, environment, entry point, history."""
        return json.loads(self._blob(str(self._manifest["config"]["digest"])).read_bytes())

    def rename(self, tag: str) -> None:
        """Gives the image another tag in the layout."""
        index_file = self.folder / "index.json"
        index = json.loads(index_file.read_bytes())
        for entry in index["manifests"]:
            if entry["digest"] == self.digest:
                entry["annotations"] = {**entry.get("annotations", {}), _TAG: tag}
        index_file.write_text(json.dumps(index))

    def attach(self, media_type: str, content: bytes, title: str) -> None:
        """Adds ``content`` to the layout as an artifact whose subject is the image (a referrer of OCI 1.1).

        An artifact of the same type is replaced.
        """
        subject = {key: self._entry[key] for key in ("mediaType", "digest", "size")}
        layer = {**self._store(media_type, content), "annotations": {"org.opencontainers.image.title": title}}
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "artifactType": media_type,
            "config": self._store(_EMPTY, b"{}"),
            "layers": [layer],
            "subject": subject,
        }
        entry = {**self._store(_MANIFEST, json.dumps(manifest).encode()), "artifactType": media_type}
        index_file = self.folder / "index.json"
        index = json.loads(index_file.read_bytes())
        others = [found for found in index["manifests"] if found.get("artifactType") != media_type]
        index_file.write_text(json.dumps({**index, "manifests": [*others, entry]}))

    def _store(self, media_type: str, content: bytes) -> dict[str, Any]:
        descriptor = _descriptor(media_type, content)
        self._blob(descriptor["digest"]).write_bytes(content)
        return descriptor

    def write_archive(self, archive: IO[bytes], name: str, known: Collection[str] = ()) -> None:
        """Writes the image, under ``name``, as an archive without the ``known`` blobs."""
        entry = {key: self._entry[key] for key in ("mediaType", "digest", "size")}
        with tarfile.open(fileobj=archive, mode="w|", bufsize=1 << 20) as files:
            _add(files, "oci-layout", _LAYOUT)
            _add(files, "index.json", _index(name, entry))
            for digest in dict.fromkeys(self.blobs()):
                if digest not in known:
                    files.add(self._blob(digest), arcname=f"blobs/{digest.replace(':', '/')}")

    def discard_other_images(self) -> None:
        """Deletes the images of earlier builds: a layer of third-party packages is a gigabyte.

        The index forgets them, too. containerd refuses an archive whose index names a manifest that is not there.
        """
        index_file = self.folder / "index.json"
        index_file.write_text(json.dumps({**json.loads(index_file.read_bytes()), "manifests": [self._entry]}))
        mine = {self._blob(digest) for digest in self.blobs()}
        for blob in self.folder.glob("blobs/*/*"):
            if blob not in mine:
                blob.unlink()

    def _blob(self, digest: str) -> Path:
        return self.folder / "blobs" / digest.replace(":", "/")


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}


def _index(name: str, descriptor: Mapping[str, Any]) -> bytes:
    # containerd takes the image's name from this annotation.
    named = {**descriptor, "annotations": {"io.containerd.image.name": name}}
    return json.dumps({"schemaVersion": 2, "manifests": [named]}).encode()


def _add(files: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    files.addfile(member, io.BytesIO(content))
