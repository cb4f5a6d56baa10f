"""The documentation renders without a warning, without network access, and names every page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
DOCS = REPOSITORY / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make docs`` renders it; strict, so that a broken link, anchor or omitted page fails here."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "NO_MKDOCS_2_WARNING": "1",
            "https_proxy": "http://127.0.0.1:1",
            "http_proxy": "http://127.0.0.1:1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_is_built_of_every_page(site: Path) -> None:
    pages = {page.relative_to(DOCS).with_suffix("") for page in DOCS.rglob("*.md")}
    folders = {page.parent if page.name == "README" else page for page in pages}
    assert all((site / folder / "index.html").is_file() for folder in folders)


def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*src=\"?([^\"\s>]+)", page.read_text(encoding="utf-8"))
        loaded += re.findall(r"<link[^>]*rel=\"?stylesheet[^>]*", page.read_text(encoding="utf-8"))
        assert not [name for name in loaded if "//" in name], page
