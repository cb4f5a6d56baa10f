"""What the Containerfiles build from is named by its hash, and the same for both images."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from imagerelease import debian_lock
from localcluster.images.builder import IMAGES, Image
from localcluster.images.source_date import source_date_epoch
from localcluster.settings import REPOSITORY

DIGEST = re.compile(r"[^@]+@sha256:[0-9a-f]{64}")
NAMES = [image.name for image in IMAGES]


def arguments(text: str) -> dict[str, str]:
    """The arguments with a default, by name."""
    return dict(re.findall(r"^ARG (\w+)=(.*)$", text, re.MULTILINE))


def unpinned(text: str) -> list[str]:
    """The images of FROM lines that are no stage and have no digest."""
    stages = re.findall(r"^FROM .* AS (\S+)$", text, re.MULTILINE)
    values = arguments(text)
    bases = [
        re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], base) for base in re.findall(r"^FROM (\S+)", text, re.M)
    ]
    return [base for base in bases if base not in stages and not DIGEST.fullmatch(base)]


@pytest.mark.parametrize("name", NAMES)
def test_every_base_has_a_digest(name: str) -> None:
    assert unpinned(Image(name).containerfile.read_text(encoding="utf-8")) == []


def test_a_base_without_a_digest_is_found() -> None:
    text = "ARG BASE=debian:12-slim\nFROM ${BASE} AS one\nFROM one\nFROM python:3.11\n"
    assert unpinned(text) == ["debian:12-slim", "python:3.11"]


def test_both_images_have_the_same_arguments() -> None:
    first, second = (arguments(image.containerfile.read_text(encoding="utf-8")) for image in IMAGES)
    assert first == second
    assert first["DEBIAN_LOCK"] == "strict"
    assert int(first["SOURCE_DATE_EPOCH"]) == source_date_epoch()


def test_the_date_is_a_midnight_as_snapshots_have_it() -> None:
    date = datetime.fromtimestamp(source_date_epoch(), UTC)
    assert (date.hour, date.minute, date.second) == (0, 0, 0)


@pytest.mark.parametrize("name", [*NAMES, "build"])
def test_a_lock_has_the_packages_that_its_first_line_wants(name: str) -> None:
    lock = debian_lock.LOCKS / f"{name}.sha256"
    locked = {package for package, _ in debian_lock.hashes(lock)}
    assert set(debian_lock.wanted(lock)) <= locked
    lines = lock.read_text(encoding="utf-8").splitlines()[1:]
    assert len(locked) == len(lines)


def test_packages_of_both_images_have_one_version() -> None:
    first, second = (dict(debian_lock.hashes(debian_lock.LOCKS / f"{name}.sha256")) for name in NAMES)
    versions = [dict(lock) for lock in (first, second)]
    common = {name for name, _ in versions[0]} & {name for name, _ in versions[1]}
    assert {entry for entry in first if entry[0] in common} == {entry for entry in second if entry[0] in common}


@pytest.mark.parametrize("name", [*NAMES, "build"])
def test_every_python_package_has_a_hash(name: str) -> None:
    text = (REPOSITORY / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    entries = [entry for entry in re.split(r"\n(?=[a-z0-9])", text) if not entry.startswith("#")]
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize("name", ["classes", "laptop"])
def test_the_class_list_is_of_the_locked_spark(name: str) -> None:
    (version,) = re.findall(r"^pyspark==(\S+)", (REPOSITORY / "locks/sparkapp.txt").read_text(encoding="utf-8"), re.M)
    file = REPOSITORY / f"sparkapp/spark/launch/archive/{name}.list"
    title = file.read_text(encoding="utf-8").partition("\n")[0]
    assert f"with pyspark {version}." in title, "run make class-list"
