"""The job that the demo leaves: a folder that a person can edit, and apply again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from clusterjob.environment import ClusterEnvironment
from demo.delays import expected
from demo.manifest import ENGINES, write_project
from demo.output import change_lines
from kafkaspark.__main__ import main
from kafkaspark.local.project import read_project


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterEnvironment:
    return ClusterEnvironment(
        kubeconfig=tmp_path, kubectl="kubectl", helm="helm", bootstrap="127.0.0.1:1", bootstrap_pods="10.0.0.1:2",
        logs=tmp_path, network_policies=True,
    )  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_the_folder_has_the_job_with_its_code(engine: str, cluster: ClusterEnvironment, tmp_path: Path) -> None:
    code = write_project(tmp_path / "demo", cluster, engine)
    file = code.with_name("job.yaml")
    assert main(["validate", "--no-plan", str(file)]) == 0
    project = read_project(file, environ={})
    assert project.job.spec.kafka.bootstrap_servers == "10.0.0.1:2"
    assert project.files == {code.name: code}
    kustomization = yaml.safe_load(code.with_name("kustomization.yaml").read_text())
    assert kustomization["configMapGenerator"][0]["name"] == project.job.spec.transform.code


def test_what_a_person_has_edited_stays(cluster: ClusterEnvironment, tmp_path: Path) -> None:
    code = write_project(tmp_path, cluster, "micro-batch")
    code.write_text("mine")
    assert write_project(tmp_path, cluster, "micro-batch").read_text() == "mine"


def test_a_reader_is_told_how_to_see_a_change(tmp_path: Path) -> None:
    """Seen: the job was changed, and nothing came out, because all flights were read."""
    lines = change_lines(tmp_path / "delays.py", source="flights", sink="flights-classified", namespace="demo")
    echo, record, _, *produce = shlex.split(lines[-1])
    assert (echo, produce) == ("echo", ["kafkaspark", "topic", "produce", "flights"])
    assert expected(json.loads(record))["class"] in {"early", "on time"}
    assert f"  kubectl --namespace=demo apply -k {tmp_path}" in lines
