"""What an image contains, read from its files: Debian packages, Python packages and jars."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import PurePosixPath

from imagerelease import debian_lock, layers
from localcluster.images.builder import Image
from localcluster.images.oci import Layout
from localcluster.settings import REPOSITORY

PROJECT = "kafkaspark"
_STATUS = "var/lib/dpkg/status"
_METADATA = re.compile(r".*/[^/]+\.(dist-info/METADATA|egg-info/PKG-INFO)")
_POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\]+)", re.MULTILINE)


@dataclass(frozen=True, order=True)
class Found:
    """A component of an image.

    :param kind: ``deb``, ``pypi``, ``maven``, or ``generic`` for what no package index has.
    :param group: of a Maven artifact.
    :param hashes: SHA-256 of the files that it may come from: the package, its distributions, the jar.
    :param contains: the artifacts that a jar has in it, by their own metadata.
    """

    kind: str
    name: str
    version: str
    group: str = ""
    architecture: str = ""
    license: str = ""
    hashes: tuple[str, ...] = ()
    contains: tuple[Found, ...] = ()


def components_of(image: Image, layout: Layout) -> list[Found]:
    """Every component of ``image``, sorted."""
    files = layers.files_of(layout, _is_wanted)
    jars = (_jar(path, content) for path, content in files.items() if path.endswith(".jar"))
    return sorted({*_debian_packages(image, files[_STATUS].decode()), *_python_packages(image, files), *jars})


def _is_wanted(path: str) -> bool:
    # Python packages of Debian are packages of Debian.
    python = _METADATA.fullmatch(path) is not None and not path.startswith("usr/lib/python3")
    return path == _STATUS or "/pyspark/jars/" in path or python


def _debian_packages(image: Image, status: str) -> Iterator[Found]:
    lock = debian_lock.hashes(debian_lock.LOCKS / f"{image.name}.sha256")
    for stanza in filter(str.strip, status.split("\n\n")):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", stanza, re.MULTILINE))
        if fields["Status"].endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            locked = lock.get((name, version))
            yield Found(
                kind="deb", name=name, version=version, architecture=fields["Architecture"],
                hashes=(locked,) if locked else (),
            )  # fmt: skip


def _python_packages(image: Image, files: Mapping[str, bytes]) -> Iterator[Found]:
    hashes = _locked_distributions((REPOSITORY / "locks" / f"{image.name}.txt").read_text(encoding="utf-8"))
    for path, content in files.items():
        if _METADATA.fullmatch(path):
            fields = HeaderParser().parsestr(content.decode(errors="replace"))
            name, version = re.sub(r"[-_.]+", "-", fields["Name"]).lower(), fields["Version"]
            kind = "generic" if name == PROJECT else "pypi"
            licence = fields.get("License-Expression", "")
            yield Found(kind=kind, name=name, version=version, license=licence, hashes=hashes.get((name, version), ()))


def _locked_distributions(lock: str) -> dict[tuple[str, str], tuple[str, ...]]:
    found = {}
    for entry in re.split(r"\n(?=[A-Za-z0-9])", lock):
        match = _REQUIREMENT.match(entry)
        if match:
            found[match[1].lower(), match[2]] = tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
    return found


def _jar(path: str, content: bytes) -> Found:
    stem = PurePosixPath(path).stem
    digest = hashlib.sha256(content).hexdigest()
    with zipfile.ZipFile(io.BytesIO(content)) as jar:
        texts = [jar.read(name).decode(errors="replace") for name in jar.namelist() if _POM.fullmatch(name)]
    artifacts = sorted(map(_artifact, texts))
    # The name of a file is ARTIFACT-VERSION, or ARTIFACT-VERSION-CLASSIFIER.
    own = next((it for it in artifacts if f"{stem}-".startswith(f"{it.name}-{it.version}-")), None)
    inner = tuple(artifact for artifact in artifacts if artifact != own)
    if own is None:
        name, _, version = re.sub(r"-(?=\d)", "\0", stem, count=1).partition("\0")
        return Found(kind="generic", name=name, version=version or "unknown", hashes=(digest,), contains=inner)
    return Found(
        kind="maven", name=own.name, version=own.version, group=own.group, hashes=(digest,), contains=inner
    )  # fmt: skip


def _artifact(properties: str) -> Found:
    values = dict(re.findall(r"^(groupId|artifactId|version)\s*=\s*(.*?)\s*$", properties, re.MULTILINE))
    return Found(kind="maven", name=values["artifactId"], version=values["version"], group=values["groupId"])
