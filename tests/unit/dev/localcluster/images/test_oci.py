"""Image archives: complete ones, and ones that leave out what the cluster has."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from localcluster.images.oci import Layout, digest_of, write_single_program_image


def read(archive: io.BytesIO) -> dict[str, bytes]:
    archive.seek(0)
    with tarfile.open(fileobj=archive) as files:
        return {member.name: files.extractfile(member).read() for member in files}  # type: ignore[union-attr]


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """The layout of an image with two layers, as a builder writes it."""
    blobs = tmp_path / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def add(content: bytes) -> dict[str, object]:
        digest = digest_of(content)
        (blobs / digest.partition(":")[2]).write_bytes(content)
        return {"mediaType": "any", "digest": digest, "size": len(content)}

    manifest = {"config": add(b"config"), "layers": [add(b"base"), add(b"application")]}
    entry = {**add(json.dumps(manifest).encode()), "annotations": {"org.opencontainers.image.ref.name": "latest"}}
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [entry]}))
    return tmp_path


def test_an_archive_has_every_blob_and_the_name(layout: Path) -> None:
    image = Layout(layout, "latest")
    archive = io.BytesIO()
    image.write_archive(archive, "localhost/kafkaspark/x:dev")
    files = read(archive)
    assert {f"blobs/{digest.replace(':', '/')}" for digest in image.blobs()} < files.keys()
    named = json.loads(files["index.json"])["manifests"][0]
    assert named["digest"] == image.digest
    assert named["annotations"]["io.containerd.image.name"] == "localhost/kafkaspark/x:dev"


def test_known_layers_are_left_out(layout: Path) -> None:
    archive = io.BytesIO()
    base = digest_of(b"base")
    Layout(layout, "latest").write_archive(archive, "x", known={base})
    contents = read(archive).values()
    assert b"base" not in contents
    assert b"application" in contents


def test_a_layout_without_the_tag_is_refused(layout: Path) -> None:
    with pytest.raises(LookupError):
        Layout(layout, "other")


def test_the_blobs_of_previous_builds_are_thrown_away(layout: Path) -> None:
    outdated = layout / "blobs" / "sha256" / "0123"
    outdated.write_bytes(b"previous build")
    index = json.loads((layout / "index.json").read_bytes())
    earlier = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:0123", "size": 14}
    (layout / "index.json").write_text(json.dumps({**index, "manifests": [earlier, *index["manifests"]]}))
    image = Layout(layout, "latest")
    image.discard_other_images()
    assert not outdated.exists()
    assert json.loads((layout / "index.json").read_bytes()) == index, "no manifest without a blob"
    image.write_archive(io.BytesIO(), "x")


def test_a_single_program_image_is_whole(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"ELF")
    archive = io.BytesIO()
    write_single_program_image(archive, "pause:1", program, "65535:65535")
    files = read(archive)
    manifest_digest = json.loads(files["index.json"])["manifests"][0]["digest"]
    manifest = json.loads(files[f"blobs/{manifest_digest.replace(':', '/')}"])
    config = json.loads(files[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    layer = files[f"blobs/{manifest['layers'][0]['digest'].replace(':', '/')}"]
    assert config["rootfs"]["diff_ids"] == [digest_of(layer)]
    assert config["config"] == {"Entrypoint": ["/pause"], "User": "65535:65535"}
    assert read(io.BytesIO(layer)) == {"pause": b"ELF"}
