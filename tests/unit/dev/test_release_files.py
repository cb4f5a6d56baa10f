"""Archives of a release: complete, and equal for equal content."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from imagerelease import release
from localcluster.errors import SetupError
from localcluster.images.oci import Layout, write_single_program_image
from releasefiles import __main__ as main_module
from releasefiles import images
from releasefiles.archives import compressed, files_of, tar_of
from releasefiles.images import publish
from releasefiles.packages import platform_of

TAG = "1"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An image of one program."""
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    content = io.BytesIO()
    write_single_program_image(content, TAG, program, "1")
    content.seek(0)
    with tarfile.open(fileobj=content) as archive:
        archive.extractall(tmp_path / "layout", filter="data")
    index = tmp_path / "layout/index.json"
    index.write_text(index.read_text().replace("io.containerd.image.name", "org.opencontainers.image.ref.name"))
    return Layout(tmp_path / "layout", TAG)


def test_an_image_is_published_with_its_bill(layout: Layout, tmp_path: Path) -> None:
    layout.attach("application/vnd.cyclonedx+json", b"{}", "bill")
    bill, folder = tmp_path / "bill.json", tmp_path / "release"
    bill.write_text("{}")
    folder.mkdir()
    publish(layout, bill, folder, "operator", "2.0")
    assert sorted(path.name for path in folder.iterdir()) == ["operator-2.0.cdx.json", "operator-2.0.oci.tar"]
    with tarfile.open(folder / "operator-2.0.oci.tar") as archive:
        archive.extractall(tmp_path / "again", filter="data")
    assert files_of(tmp_path / "again") == files_of(layout.folder)
    # Whoever imports the archive finds the image by its version. All had the tag of the builder, latest.
    assert Layout(tmp_path / "again", "2.0").digest == layout.digest


def test_a_build_that_fails_leaves_its_log_and_names_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen: the message had the command alone, and its log was deleted with the folder of the build."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/buildah").write_text("#!/bin/sh\necho \"E: Version '1.2' for 'tini' was not found\"\nexit 100\n")
    (tmp_path / "bin/buildah").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(release.packages, "ensure", lambda *_: None)
    monkeypatch.setattr(release, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(images, "REPOSITORY", tmp_path)
    for step in ("write_packages", "write_chart", "write_site"):
        monkeypatch.setattr(main_module, step, lambda _: None)
    assert main_module.main(["--output", str(tmp_path / "release"), "--base-image", "debian@sha256:0"]) == 2
    said = capsys.readouterr().err
    assert "E: Version '1.2' for 'tini' was not found" in said
    (log,) = (tmp_path / "logs").iterdir()
    assert str(log) in said
    assert list((tmp_path / "artifacts").iterdir()) == []


def test_equal_content_gives_equal_archives(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    first = compressed(tar_of(files_of(tmp_path)))
    (tmp_path / "a").touch()
    assert compressed(tar_of(dict(reversed(files_of(tmp_path).items())))) == first


def test_a_wheel_without_its_extension_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sparkapp/__init__.py", "")
    with pytest.raises(SetupError, match="has no extension"):
        platform_of(wheel)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sparkapp/dataplane/native/_kafka_arrow.so", b"GLIBC_2.4 GLIBC_2.28 GLIBC_2.3.4")
    assert platform_of(wheel).startswith("manylinux_2_28_")
