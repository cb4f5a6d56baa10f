"""``--in-cluster``: the Job of a command, and what a person sees of it."""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from kafkaspark.__main__ import main
from kafkaspark.cluster import in_cluster
from kafkaspark.cluster.in_cluster import run
from kafkaspark.cluster.pod_command import PodCommand
from sparkapp.cli import target
from sparkapp.model.errors import CommandRefused

BODY = {
    "metadata": {"name": "orders", "namespace": "shop", "uid": "u"},
    "spec": {
        "kafka": {
            "bootstrapServers": "kafka:9093",
            "tls": {"trustedCertificates": [{"secretName": "ca", "certificate": "ca.crt"}]},
            "authentication": {"type": "tls", "certificateAndKey": {"secretName": "orders"}},
        },
        "source": {"topics": ["orders"]}, "sink": {"topic": "out"}, "imagePullSecrets": [{"name": "registry"}],
    },
    "status": {"state": "Suspended"},
}  # fmt: skip
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"image": "r/sparkapp:1"}]}}


class Cluster:
    """Of a job with a driver; notes what is created and deleted.

    :param statuses: of the command's pod, one for each look.
    """

    namespace = "shop"

    def __init__(self, *statuses: dict[str, Any]) -> None:
        self.statuses = list(statuses)
        self.created: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.job_has: dict[str, Any] = {}

    def job(self, _namespace: str, _name: str) -> dict[str, Any]:
        return copy.deepcopy(BODY | self.job_has)

    def pods(self, _namespace: str, _name: str) -> list[dict[str, Any]]:
        return [POD]

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.created.append(body)
        return {**body, "metadata": {**body["metadata"], "uid": "job-uid"}}

    def delete(self, path: str) -> None:
        self.deleted.append(path)

    def get(self, _path: str) -> dict[str, Any]:
        return {**POD, "status": self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]}

    def items(self, path: str, _query: object) -> list[dict[str, Any]]:
        return [self.get(path)]

    def lines(self, _path: str, _query: object) -> Iterator[str]:
        yield "no open transactions"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(in_cluster, "UserCluster", SimpleNamespace(of_context=lambda _: made))
    found = SimpleNamespace(text='{"jobUid": "u"}', lost=None)
    monkeypatch.setattr(in_cluster, "ClusterCheckpoints", lambda **_: SimpleNamespace(find=lambda: found))
    return made


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(capsys.readouterr().out))


@pytest.mark.usefixtures("cluster")
def test_the_pod_has_the_jobs_resource_document_image_and_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["txn", "hanging", "--job", "orders", "--topic", "a", "b", "--output", "json"]
    assert main([*command, "--in-cluster", "print"]) == 0
    files, job = printed(capsys)
    assert files["metadata"]["name"] == job["metadata"]["name"]
    assert files["data"]["state.json"] == '{"jobUid": "u"}'
    resource = json.loads(files["data"]["resource.json"])
    assert (resource["metadata"]["uid"], resource["status"]["state"]) == ("u", "Suspended")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "r/sparkapp:1"
    assert container["args"] == [
        "python3", "-m", "kafkaspark", "txn", "hanging", "--output", "json", "--topic", "a", "b",
        "--resource", "/etc/kafkaspark/command/resource.json", "--state", "/etc/kafkaspark/command/state.json",
    ]  # fmt: skip
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/etc/kafkaspark/credentials/ca-0", "/etc/kafkaspark/credentials/user"} < paths
    assert pod["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.usefixtures("cluster")
def test_a_command_about_topics_has_the_credentials_of_a_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKASPARK_BOOTSTRAP", "127.0.0.1:9092")
    assert main(["topic", "tail", "orders", "--count", "3", "--job", "orders", "--in-cluster", "print"]) == 0
    files, job = printed(capsys)
    assert list(files["data"]) == ["resource.json"], "topics need no checkpoint"
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][2:] == [
        "kafkaspark", "topic", "tail", "orders", "--count", "3",
        "--resource", "/etc/kafkaspark/command/resource.json",
    ]  # fmt: skip
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    assert {mounted[name]: secret["secretName"] for name, secret in volumes.items()} == {
        "/etc/kafkaspark/credentials/ca-0": "ca", "/etc/kafkaspark/credentials/user": "orders",
    }  # fmt: skip
    assert (container["image"], pod["imagePullSecrets"]) == ("r/sparkapp:1", [{"name": "registry"}])


@pytest.mark.usefixtures("cluster")
def test_brokers_of_the_environment_reach_the_pod(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKASPARK_BOOTSTRAP", "kafka:9092")
    assert main(["topic", "list", "--image", "i", "--in-cluster", "print"]) == 0
    (job,) = printed(capsys)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][3:] == ["topic", "list", "--bootstrap", "kafka:9092"]


def test_a_command_about_topics_of_a_second_cluster_has_its_brokers_and_secrets(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec: Any = copy.deepcopy(BODY["spec"])
    spec["sink"]["kafka"] = {**spec["kafka"], "bootstrapServers": "other:9093"}
    cluster.job_has = {"spec": spec}
    assert main(["topic", "list", "--job", "orders", "--sink", "--in-cluster", "print"]) == 0
    files, job = printed(capsys)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert "--sink" in container["args"]
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {f"/etc/kafkaspark/credentials/{name}" for name in ("user", "ca-0", "sink-user", "sink-ca-0")} <= paths
    resource = tmp_path / "resource.json"
    resource.write_text(files["data"]["resource.json"])
    monkeypatch.setattr(target, "read_security", lambda kafka: {"sasl.username": kafka.field})
    for sink, found in ((True, ("other:9093", "spec.sink.kafka")), (False, ("kafka:9093", "spec.kafka"))):
        config = target.cluster_of_job(argparse.Namespace(resource=resource, job=None, namespace="", sink=sink))
        assert (config["bootstrap.servers"], config["sasl.username"]) == found


@pytest.mark.usefixtures("cluster")
def test_a_command_without_a_job_names_brokers_and_image(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["topic", "describe", "orders", "--bootstrap", "kafka:9092", "--in-cluster", "print"]
    assert main([*command, "--image", "r/sparkapp:2"]) == 0
    (job,) = printed(capsys)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][2:] == ["kafkaspark", "topic", "describe", "orders", "--bootstrap", "kafka:9092"]
    assert main(command) == 1
    assert "Fix: add --image" in capsys.readouterr().err


@pytest.mark.usefixtures("cluster")
def test_a_file_of_this_machine_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "client").write_text("")
    assert main(["txn", "list", "--config", str(tmp_path / "client"), "--in-cluster", "print"]) == 1
    assert "--config is a file of this machine" in capsys.readouterr().err


def command_of() -> PodCommand:
    return PodCommand(name="c", namespace="shop", image="i", arguments=["txn", "list"], files={"state.json": "{}"})


def test_the_log_and_the_exit_status_are_the_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_cluster, "_PAUSE_SECONDS", 0)
    waiting = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}]}
    ended = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}
    cluster: Any = Cluster({"phase": "Pending", **waiting}, ended)
    assert run(cluster, command_of()) == 3
    captured = capsys.readouterr()
    assert captured.out == "no open transactions\n"
    assert captured.err == "ErrImagePull no such image\n"
    job, files = cluster.created
    assert (job["kind"], files["metadata"]["ownerReferences"][0]["uid"]) == ("Job", "job-uid")
    assert cluster.deleted == ["/apis/batch/v1/namespaces/shop/jobs/c"]


def test_a_pod_that_does_not_start_is_a_refusal_and_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_cluster, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(in_cluster, "_START_SECONDS", 0)
    cluster: Any = Cluster({"phase": "Pending", "conditions": [{"reason": "Unschedulable", "message": "no node"}]})
    with pytest.raises(CommandRefused, match="has not started in 0 s: no node"):
        run(cluster, command_of())
    assert cluster.deleted
