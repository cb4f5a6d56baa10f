"""Where the code of a job is found, and which variables its pods have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaspark.local.project import Project, read_project
from sparkapp.model.errors import ConfigurationError
from tests.support.kubernetes.operator_fixture import job_body

CODE = {"python": {"function": "rules:apply", "configMapRef": {"name": "rules-code"}}}
CONFIG_MAP = {"kind": "ConfigMap", "metadata": {"name": "rules-code"}, "data": {"rules.py": "", "more.py": "x = 1"}}


def read(folder: Path, *others: dict[str, Any], environ: dict[str, str] | None = None, **spec: Any) -> Project:
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump_all([*others, job_body(**{"transform": CODE, **spec})]), encoding="utf-8")
    return read_project(file, environ=environ or {})


def test_a_config_map_of_the_same_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "rules.py").touch()
    assert read(tmp_path, CONFIG_MAP).files == {"rules.py": "", "more.py": "x = 1"}


def test_a_kustomization_names_the_files(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("src/rules.py", "src/local.py", "other.py"):
        (tmp_path / name).touch()
    generator = {"name": "rules-code", "files": ["src/rules.py", "more.py=src/local.py"]}
    kustomization = {"configMapGenerator": [{"name": "another", "files": ["other.py"]}, generator]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    project = read(tmp_path)
    assert project.files == {"rules.py": tmp_path / "src/rules.py", "more.py": tmp_path / "src/local.py"}
    assert project.watched == (tmp_path / "job.yaml", tmp_path / "kustomization.yaml")


def test_a_file_that_a_kustomization_names_must_exist(tmp_path: Path) -> None:
    kustomization = {"configMapGenerator": [{"name": "rules-code", "files": ["rules.py"]}]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    with pytest.raises(ConfigurationError, match=r"kustomization.yaml names files that do not exist: .*/rules\.py$"):
        read(tmp_path)


@pytest.mark.parametrize("transform", [CODE, {"python": {"function": "rules:apply"}}])
def test_modules_next_to_the_job_are_its_code(transform: dict[str, Any], tmp_path: Path) -> None:
    for name in ("rules.py", "more.py", "test_rules.py", "conftest.py", "notes.txt"):
        (tmp_path / name).touch()
    project = read(tmp_path, transform=transform)
    assert project.files == {"rules.py": tmp_path / "rules.py", "more.py": tmp_path / "more.py"}


def test_code_that_is_nowhere_is_refused_with_the_places(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no ConfigMap 'rules-code' of spec\.transform is in") as found:
        read(tmp_path)
    assert "configMapGenerator of kustomization.yaml" in found.value.remedy


def test_a_module_of_the_image_is_imported_from_the_environment(tmp_path: Path) -> None:
    assert read(tmp_path, transform={"python": {"function": "rules:apply"}}).files == {}


def test_a_refusal_is_the_operators(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^spec\.parallelism must be"):
        read(tmp_path, CONFIG_MAP, parallelism=0)


def test_several_jobs_need_a_name(tmp_path: Path) -> None:
    first, second = job_body(), job_body()
    second["metadata"] = {**second["metadata"], "name": "second"}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump_all([first, second]))
    assert read_project(file, name="second", environ={}).job.name == "second"
    with pytest.raises(ConfigurationError, match="has 2 KafkaSparkJobs"):
        read_project(file, environ={})
    with pytest.raises(ConfigurationError, match="has 0 KafkaSparkJobs named third"):
        read_project(file, name="third", environ={})


def test_variables_with_a_value_are_set_and_others_are_named(tmp_path: Path) -> None:
    secret = {"valueFrom": {"secretKeyRef": {"name": "api", "key": "k"}}}
    env = [{"name": "REGION", "value": "eu"}, {"name": "GIVEN", **secret}, {"name": "MISSING", **secret}]
    project = read(tmp_path, CONFIG_MAP, driver={"env": env}, executor={"env": env}, environ={"GIVEN": "x"})
    assert project.environment == {"REGION": "eu"}
    assert project.unset == ("MISSING",)
