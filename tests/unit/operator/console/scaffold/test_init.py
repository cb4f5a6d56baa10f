"""``kafkaspark init`` makes a folder whose job the operator accepts, with its code and its sample data."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
import yaml

from kafkaspark.__main__ import main
from kafkaspark.local.input_file import read_records
from kafkaspark.local.project import read_project
from kafkaspark.scaffold.init import NAME, TEMPLATES

pytestmark = pytest.mark.usefixtures("in_folder")


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("name", ["shop-orders", "orders"])
def test_every_template_is_valid(name: str, template: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", name, "--template", template]) == 0
    assert "kafkaspark dev job.yaml --input orders.jsonl" in capsys.readouterr().out
    assert main(["validate", "--no-plan", f"{name}/job.yaml"]) == 0
    assert capsys.readouterr().out.startswith(f"{name}/job.yaml: default/{name}: valid; ")


@pytest.mark.parametrize("template", TEMPLATES)
def test_kubectl_apply_finds_what_the_job_refers_to(template: str) -> None:
    main(["init", "shop-orders", "--template", template])
    folder = Path("shop-orders")
    objects = list(yaml.safe_load_all((folder / "job.yaml").read_text()))
    (job,) = [each for each in objects if each["kind"] == "KafkaSparkJob"]
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert kustomization["resources"] == ["job.yaml"]
    generated = {each["name"]: each["files"] for each in kustomization.get("configMapGenerator", [])}
    transform = job["spec"]["transform"].get("python") or job["spec"]["transform"].get("arrow") or {}
    assert ([transform["configMapRef"]["name"]] if transform else []) == list(generated)
    assert not generated or kustomization["generatorOptions"] == {"disableNameSuffixHash": True}
    claim = job["spec"].get("checkpoint", {}).get("stateVolume", {}).get("claimName")
    assert [claim] * bool(claim) == [
        each["metadata"]["name"] for each in objects if each["kind"] == "PersistentVolumeClaim"
    ]


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_file_of_a_template_is_named_and_can_be_read(template: str) -> None:
    main(["init", "shop-orders", "--template", template])
    folder = Path("shop-orders")
    texts = {file.name: file.read_text() for file in folder.iterdir()}
    assert not [name for name, text in texts.items() if NAME in text]
    others = texts.keys() - {"README.md"}
    assert {name for name in others if f"| `{name}` |" in texts["README.md"]} == others
    assert len(read_records(folder / "orders.jsonl")) > 3
    project = read_project(folder / "job.yaml", environ=os.environ)
    assert list(project.files) == ["transform.py"] * ("transform.py" in texts)
    for name in others:
        if name.endswith(".py"):
            ast.parse(texts[name])


@pytest.mark.parametrize("name", ["Orders", "1orders", "orders-", "my_orders", "o" * 46, "ordérs"])
def test_a_name_that_no_job_can_have_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", name]) == 1
    assert f"{name!r} is no name of a job: metadata.name must " in capsys.readouterr().err
    assert not Path(name).exists()


def test_a_folder_with_files_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Path("orders").mkdir()
    assert main(["init", "orders"]) == 0
    Path("orders/job.yaml").write_text("mine")
    capsys.readouterr()
    assert main(["init", "orders", "--template", "sql"]) == 1
    assert capsys.readouterr().err.startswith("orders exists and is not empty")
    assert Path("orders/job.yaml").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_an_error_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").touch()
    assert main(["init", "file/orders"]) == 2
    assert "file" in capsys.readouterr().err
