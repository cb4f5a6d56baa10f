"""Two builds of the operator's image are equal bit by bit, and its bill of materials lists what it contains.

The builder runs the Containerfile with the locked packages. The larger image is compared by ``make images-twice``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imagerelease.bill_of_materials import MEDIA_TYPE, attach
from imagerelease.difference import differences
from imagerelease.release import Source, build
from localcluster.images.buildah import Buildah
from localcluster.images.builder import Image
from localcluster.images.oci import Layout
from localcluster.settings import Settings

IMAGE = Image("operator")
_PYTHON = "import importlib.metadata as m; print(*(f'{d.name}={d.version}' for d in m.distributions()), sep='\\n')"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A storage of its own: the end of another build unmounts every mount of the machine's storage."""
    if os.geteuid() != 0 or shutil.which("buildah") is None:
        pytest.skip("the builder of images is not on this machine: make images")
    folder = tmp_path_factory.mktemp("images")
    found = Settings(cache=folder / "cache", state=folder / "state", run=folder / "run")
    yield found
    Buildah(found).unmount()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def builds(settings: Settings) -> list[Layout]:
    return [build(IMAGE, Source(), settings, settings.state / number) for number in ("first", "second")]


def test_two_builds_are_equal(builds: list[Layout]) -> None:
    assert list(differences(*builds)) == []
    assert builds[0].digest == builds[1].digest
    assert builds[0].config()["config"]["User"] == "10001:10001"


def components(document: dict[str, Any], kind: str) -> set[str]:
    """``NAME=VERSION`` of the components with this kind of package URL."""
    found = (each for each in document["components"] if each["purl"].startswith(f"pkg:{kind}/"))
    return {f"{each['name']}={each['version']}" for each in found}


def printed(settings: Settings, layout: Layout, *command: str) -> set[str]:
    """The lines that ``command`` prints in a container of the image."""
    buildah = Buildah(settings).command()

    def output(*arguments: str) -> str:
        done = subprocess.run([*buildah, *arguments], capture_output=True, text=True, check=True, timeout=300)
        return done.stdout.strip()

    container = output("from", f"oci:{layout.folder}:latest")
    try:
        return set(output("run", "--isolation=chroot", "--user=root", container, "--", *command).splitlines())
    finally:
        output("rm", container)
        Buildah(settings).unmount()


def test_the_bill_of_materials_lists_what_the_image_contains(builds: list[Layout], settings: Settings) -> None:
    first, second = (attach(IMAGE, layout).read_text(encoding="utf-8") for layout in builds)
    assert first == second
    document = json.loads(first)
    assert document["metadata"]["component"]["bom-ref"] == builds[0].digest
    debian = printed(settings, builds[0], "dpkg-query", "--show", "--showformat=${Package}=${Version}\\n")
    assert components(document, "deb") == debian
    python = {line.lower().replace("_", "-") for line in printed(settings, builds[0], "python3", "-c", _PYTHON)}
    assert components(document, "pypi") | components(document, "generic") == python
    own = components(document, "generic")
    assert own == {f"kafkaspark={document['metadata']['component']['version']}"}
    unhashed = [
        each["name"]
        for each in document["components"]
        if not each.get("hashes") and not each.get("externalReferences") and each["name"] != "kafkaspark"
    ]
    assert unhashed == []


def test_the_bill_of_materials_is_a_referrer_of_the_image(builds: list[Layout]) -> None:
    attach(IMAGE, builds[0])
    folder: Path = builds[0].folder
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))["manifests"]
    (entry,) = [each for each in index if each.get("artifactType") == MEDIA_TYPE]

    def blob(digest: str) -> bytes:
        return (folder / "blobs" / digest.replace(":", "/")).read_bytes()

    manifest = json.loads(blob(entry["digest"]))
    assert manifest["subject"]["digest"] == builds[0].digest
    assert (manifest["artifactType"], manifest["layers"][0]["mediaType"]) == (MEDIA_TYPE, MEDIA_TYPE)
    assert json.loads(blob(manifest["layers"][0]["digest"]))["bomFormat"] == "CycloneDX"
