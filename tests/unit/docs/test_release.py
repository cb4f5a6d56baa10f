"""Package, chart and images are of one release: ``sparkapp.__version__``, which a release changes first."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from sparkapp import __version__

REPOSITORY = Path(__file__).resolve().parents[3]
CHART = REPOSITORY / "charts/kafkaspark-operator"
TAG = re.compile(r"kafkaspark/(?:operator|sparkapp):(?P<tag>[A-Za-z0-9._-]*[A-Za-z0-9])")


def test_the_package_takes_its_version_from_the_application() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "sparkapp.__version__"}


def test_the_chart_is_of_the_release() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_documents_and_examples_name_images_of_the_release() -> None:
    pages = [*(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "examples").rglob("*"), *CHART.rglob("*.md")]
    texts = [page.read_text(encoding="utf-8") for page in pages if page.is_file()]
    found = {match["tag"] for text in texts for match in TAG.finditer(text)}
    assert found == {__version__}


def test_the_changelog_has_the_release() -> None:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {__version__}" in changelog
