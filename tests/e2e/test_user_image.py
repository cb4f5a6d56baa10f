"""The Containerfile of docs/build-your-image.md builds on top of the project's image, and its packages are imported."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from localcluster.errors import SetupError
from localcluster.images.buildah import Buildah
from localcluster.images.builder import Image
from localcluster.settings import Settings

GUIDE = Path(__file__).resolve().parents[2] / "docs/build-your-image.md"
IMAGE = "localhost/kafkaspark/user-image-test:1"
_WHEEL = {
    "greeting.py": "TEXT = 'hello'\n",
    "greeting-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1\n",
    "greeting-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "greeting-1.dist-info/RECORD": "",
}


def printed(language: str) -> str:
    """The guide's block of this language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return str(block)


def packages_stage(folder: Path) -> Path:
    """What the guide's first stage makes, made on this machine: its base image would have to be pulled."""
    wheel = folder / "greeting-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in _WHEEL.items():
            file.writestr(name, text)
    (command,) = re.findall(r"^RUN python3 (-m pip install .*) --requirement", printed("dockerfile"), re.MULTILINE)
    stage = folder / "stage"
    arguments = command.replace("/packages", str(stage / "packages")).split()
    offline = ["--no-index", "--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, *arguments, *offline, str(wheel)], check=True, timeout=120)
    return stage


@pytest.fixture(scope="module")
def settings() -> Settings:
    found = Settings.from_environment()
    if shutil.which("buildah") is None or not Buildah(found).has(Image("sparkapp").reference):
        pytest.skip("the image is not built on this machine: make images")
    return found


def test_the_printed_containerfile_works(settings: Settings, tmp_path: Path) -> None:
    context = tmp_path / "context"
    (context / "orders").mkdir(parents=True)
    (context / "requirements.txt").write_text("greeting\n", encoding="utf-8")
    (context / "user.pth").write_text(printed("text"), encoding="utf-8")
    (context / "orders" / "__init__.py").touch()
    (context / "orders" / "pipeline.py").write_text("import greeting\n\ndef enrich(source):\n    return source\n")
    containerfile = context / "Containerfile"
    containerfile.write_text(
        re.sub(r"REGISTRY/kafkaspark/sparkapp:\S+", Image("sparkapp").reference, printed("dockerfile"))
    )
    buildah = Buildah(settings)
    try:
        buildah.build(
            containerfile, IMAGE, contexts={"packages": str(packages_stage(tmp_path))}, context=context
        )  # fmt: skip
        inside = [*buildah.command(), "from", "--pull-never", IMAGE]
        container = subprocess.run(inside, check=True, capture_output=True, text=True, timeout=120).stdout.strip()
        try:
            # Executors of a job with a ConfigMap have this variable: the packages must not depend on it.
            code = "import orders.pipeline, greeting, sparkapp, pyspark; print(greeting.TEXT, pyspark.__file__)"
            run = [*buildah.command(), "run", "--isolation=chroot", "--env=PYTHONPATH=/etc/kafkaspark/code", container]
            ran = subprocess.run(
                [*run, "--", "python3", "-c", code], check=False, capture_output=True, text=True, timeout=120
            )
            assert ran.returncode == 0, ran.stderr
            assert ran.stdout.split() == ["hello", "/usr/local/lib/python3.11/dist-packages/pyspark/__init__.py"]
        finally:
            subprocess.run([*buildah.command(), "rm", container], check=False, capture_output=True, timeout=60)
    except SetupError as error:
        pytest.fail(error.report())
    finally:
        subprocess.run([*buildah.command(), "rmi", IMAGE], check=False, capture_output=True, timeout=60)
