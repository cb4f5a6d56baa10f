"""Images as OCI layouts: what two builds differ in, what an image contains, and what is attached to it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from imagerelease import debian_lock
from imagerelease.bill_of_materials import MEDIA_TYPE, attach
from imagerelease.components import Found, components_of
from imagerelease.difference import differences
from imagerelease.layers import files_of
from localcluster.images.builder import Image
from localcluster.images.oci import Layout, digest_of

PACKAGES = "usr/local/lib/python3.11/dist-packages"
(TINI,) = [version for name, version in debian_lock.hashes(debian_lock.LOCKS / "operator.sha256") if name == "tini"]
STATUS = f"""Package: tini
Status: install ok installed
Architecture: amd64
Version: {TINI}

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""


def layer(files: Mapping[str, bytes], date: int = 7) -> bytes:
    """A layer with ``files``."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), date
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


def layout(folder: Path, *layers: bytes) -> Layout:
    """An image with ``layers``, as a builder writes it."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def add(content: bytes) -> dict[str, object]:
        digest = digest_of(content)
        (blobs / digest.partition(":")[2]).write_bytes(content)
        return {"mediaType": "any", "digest": digest, "size": len(content)}

    manifest = {"config": add(b'{"config": {}}'), "layers": [add(each) for each in layers]}
    entry = {**add(json.dumps(manifest).encode()), "annotations": {"org.opencontainers.image.ref.name": "latest"}}
    (folder / "index.json").write_text(json.dumps({"manifests": [entry]}))
    return Layout(folder, "latest")


def jar(*artifacts: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        for artifact in artifacts:
            group, name, version = artifact.split(":")
            text = f"#Created\nversion={version}\r\ngroupId = {group}\nartifactId={name}\n"
            file.writestr(f"META-INF/maven/{group}/{name}/pom.properties", text)
    return written.getvalue()


def test_equal_builds_differ_in_nothing(tmp_path: Path) -> None:
    first, second = (layout(tmp_path / name, layer({"a": b"1"})) for name in ("first", "second"))
    assert list(differences(first, second)) == []


def test_each_path_that_differs_has_a_line(tmp_path: Path) -> None:
    first = layout(tmp_path / "first", layer({"same": b"0"}), layer({"a": b"1", "b": b"2"}))
    second = layout(tmp_path / "second", layer({"same": b"0"}), layer({"a": b"3", "c": b"2"}))
    each, three = (hashlib.sha256(content).hexdigest() for content in (b"1", b"3"))
    assert list(differences(first, second)) == [
        f"layer 2: /a: sha256 {each} | {three}",
        "layer 2: /b: only in the first build",
        "layer 2: /c: only in the second build",
    ]


def test_a_date_and_an_order_are_differences(tmp_path: Path) -> None:
    first = layout(tmp_path / "first", layer({"a": b"1", "b": b"2"}))
    second = layout(tmp_path / "second", layer({"a": b"1", "b": b"2"}, date=8))
    third = layout(tmp_path / "third", layer({"b": b"2", "a": b"1"}))
    assert list(differences(first, second)) == ["layer 1: /a: date 7 | 8", "layer 1: /b: date 7 | 8"]
    assert list(differences(first, third)) == ["layer 1: the order of the files, or a header"]


def test_a_later_layer_deletes_files(tmp_path: Path) -> None:
    lower = layer({"etc/a": b"1", "etc/b": b"2", "opt/c/d": b"3"})
    upper = layer({"etc/.wh.a": b"", "opt/c/.wh..wh..opq": b"", "opt/c/e": b"4"})
    assert files_of(layout(tmp_path, lower, upper), lambda path: True) == {"etc/b": b"2", "opt/c/e": b"4"}


def test_the_components_of_an_image(tmp_path: Path) -> None:
    spark = jar("org.apache.spark:spark-core_2.13:4.3.0", "com.google.guava:guava:33.4")
    bare = jar()
    files = {
        "var/lib/dpkg/status": STATUS.encode(),
        f"{PACKAGES}/kopf-1.45.2.dist-info/METADATA": b"Name: kopf\nVersion: 1.45.2\nLicense-Expression: MIT\n\nText",
        f"{PACKAGES}/kafkaspark-0.1.0.dist-info/METADATA": b"Name: kafkaspark\nVersion: 0.1.0\n",
        f"{PACKAGES}/pyspark/jars/spark-core_2.13-4.3.0.jar": spark,
        f"{PACKAGES}/pyspark/jars/oro-2.0.8.jar": bare,
        "usr/lib/python3/dist-packages/pip-23.dist-info/METADATA": b"Name: pip\nVersion: 23\n",
    }
    found = components_of(Image("operator"), layout(tmp_path, layer(files)))
    inner = Found(kind="maven", group="com.google.guava", name="guava", version="33.4")
    hashes = {component.name: component.hashes for component in found}
    assert [(component.kind, component.group, component.name, component.version) for component in found] == [
        ("deb", "", "tini", TINI),
        ("generic", "", "kafkaspark", "0.1.0"),
        ("generic", "", "oro", "2.0.8"),
        ("maven", "org.apache.spark", "spark-core_2.13", "4.3.0"),
        ("pypi", "", "kopf", "1.45.2"),
    ]
    assert found[3].contains == (inner,)
    assert hashes["spark-core_2.13"] == (hashlib.sha256(spark).hexdigest(),)
    assert (len(hashes["tini"]), len(hashes["kopf"]), hashes["kafkaspark"]) == (1, 2, ())


def test_an_attached_bill_names_the_image_and_replaces_the_former(tmp_path: Path) -> None:
    image = layout(tmp_path / "operator", layer({"var/lib/dpkg/status": STATUS.encode()}))
    for _ in range(2):
        file = attach(Image("operator"), image)
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["metadata"]["component"]["bom-ref"] == image.digest
    assert [component["purl"] for component in document["components"]] == [
        f"pkg:deb/debian/tini@{quote(TINI)}?arch=amd64&distro=debian-12"
    ]
    index = json.loads((image.folder / "index.json").read_text(encoding="utf-8"))["manifests"]
    assert [entry.get("artifactType") for entry in index] == [None, MEDIA_TYPE]
    manifest = json.loads((image.folder / "blobs" / index[1]["digest"].replace(":", "/")).read_bytes())
    assert manifest["subject"]["digest"] == image.digest
    assert Layout(image.folder, "latest").digest == image.digest
