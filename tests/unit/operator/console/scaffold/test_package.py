"""``kafkaspark package``: the ConfigMap of a job's modules, and the context of its image."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kafkaspark.__main__ import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "orders"]) == 0
    capsys.readouterr()
    return tmp_path


def test_the_modules_are_the_config_map_that_the_job_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["package", "orders/job.yaml", "-n", "shop"]) == 0
    made = yaml.safe_load(capsys.readouterr().out)
    job = yaml.safe_load((folder / "orders/job.yaml").read_text())
    assert made["metadata"] == {"name": job["spec"]["transform"]["python"]["configMapRef"]["name"], "namespace": "shop"}
    assert made["data"] == {"transform.py": (folder / "orders/transform.py").read_text()}


def test_packages_need_an_image(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "orders/requirements.txt").write_text("humanize==4.9\n")
    assert main(["package", "orders/job.yaml"]) == 1
    assert "Fix: make an image: add --image" in capsys.readouterr().err


def test_a_context_has_code_packages_and_the_job_with_the_image(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "orders/requirements.txt").write_text("humanize==4.9\n")
    command = ["package", "orders/job.yaml", "--image", "r/orders:1", "--output", "context"]
    assert main(command) == 1
    assert "Fix: add --from REGISTRY/kafkaspark/sparkapp:VERSION" in capsys.readouterr().err
    assert main([*command, "--from", "r/sparkapp:1"]) == 0
    assert "docker build --file context/Containerfile --tag r/orders:1 context" in capsys.readouterr().out
    made = folder / "context"
    names = sorted(path.name for path in made.iterdir())
    assert names == ["Containerfile", "code", "job.yaml", "requirements.txt", "user.pth"]
    lines = (made / "Containerfile").read_text().splitlines()
    assert "FROM r/sparkapp:1" in lines
    assert "COPY --from=packages /packages /usr/local/lib/user-packages" in lines
    assert (made / "code/transform.py").read_text() == (folder / "orders/transform.py").read_text()
    spec = yaml.safe_load((made / "job.yaml").read_text())["spec"]
    assert spec["image"] == "r/orders:1"
    assert set(spec["transform"]["python"]) == {"function"}
    assert main(["validate", "--no-plan", "context/job.yaml"]) == 0
    assert main([*command, "--from", "r/sparkapp:1"]) == 1
    assert "context is not empty" in capsys.readouterr().err


def test_a_context_without_packages_has_one_stage(folder: Path) -> None:
    assert main(["package", "orders/job.yaml", "--image", "r/orders:1", "--from", "r/sparkapp:1"]) == 0
    text = (folder / "package-orders/Containerfile").read_text()
    assert text.count("FROM ") == 1
    assert "packages /packages" not in text
