"""The commands of a person with a kubeconfig, on a real API server: snapshot, state, restore."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kafkaspark.__main__ import main
from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.config_maps import state_config_map
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from tests.support.kubernetes.api_client import ApiClient, ApiError
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import Running

FIRST, SECOND = (TopicPartition("orders", number) for number in range(2))


@pytest.mark.usefixtures("core")
def test_a_job_is_kept_shown_and_brought_back(
    running: Running, api: ApiClient, capsys: pytest.CaptureFixture[str]
) -> None:
    job = LiveJob(api, running.place.namespace, "kept-by-hand")
    job.create()
    named = [job.name, "--namespace", job.namespace]

    def ask(*arguments: str, status: int = 0) -> str:
        assert main([arguments[0], *named, *arguments[1:]]) == status
        captured = capsys.readouterr()
        return captured.out if status == 0 else captured.err

    job.await_driver(1)
    first = (KafkaPartitionSplit(FIRST, 0, 40), KafkaPartitionSplit(SECOND, 0, 60))
    job.checkpoint(1, 12, splits=first, cluster_id="kafka-1")
    answer = ask("snapshot", "--name", "by-hand")
    assert answer.startswith(f"snapshot {job.namespace}/by-hand holds checkpoint 12 of ")
    assert answer.endswith(f"$ kafkaspark restore {job.name} --namespace {job.namespace} --snapshot by-hand\n")
    assert "already exists" in ask("snapshot", "--name", "by-hand", status=1)

    later = (KafkaPartitionSplit(FIRST, 40, 45), KafkaPartitionSplit(SECOND, 60, 60))
    job.checkpoint(1, 13, splits=later, cluster_id="kafka-1")
    state: dict[str, Any] = json.loads(ask("state", "--output", "json"))
    assert state["checkpoint"]["id"] == 13
    assert [row["offset"] for row in state["offsets"]] == [45, 60]
    (kept,) = state["snapshots"]
    assert (kept["snapshot"], kept["state"], kept["checkpoint"]) == ("by-hand", "Ready", 12)
    assert f"$ kafkaspark snapshot {job.name} --namespace {job.namespace}" in ask("state")

    assert "5 record(s) of 1 partition(s) are read and written again" in ask("restore", "--snapshot", "by-hand")
    assert "snapshot" not in job.body["spec"].get("restore", {})
    assert "restore.snapshot by-hand, restore.nonce 1" in ask("restore", "--snapshot", "by-hand", "--yes")
    assert job.body["spec"]["restore"] == {"snapshot": "by-hand", "nonce": 1}
    assert "not found" in ask("restore", "--snapshot", "nothing", status=1).lower()


@pytest.mark.usefixtures("core")
def test_a_job_that_does_not_exist_gets_no_snapshot(namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "nobody", "--namespace", namespace]) == 1
    captured = capsys.readouterr()
    assert '"nobody" not found' in captured.err
    assert "Fix: list the jobs" in captured.err


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("asked", [("txn", "list"), ("topic", "describe", "orders")], ids=["txn", "topic"])
def test_a_command_in_the_cluster_fits_the_restricted_standard(
    api: ApiClient, namespace: str, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...]
) -> None:
    job = LiveJob(api, namespace)
    secrets = {"tls": {"trustedCertificates": [{"secretName": "ca", "pattern": "*.crt"}]}}
    uid = job.create(kafka={**secrets})["metadata"]["uid"]
    api.call("POST", job.config_maps_path, state_config_map(JobIdentity(namespace, job.name, uid)))
    command = [*asked, "--job", job.name, "--namespace", namespace, "--in-cluster", "print"]
    assert main(command) == 0
    files, made = yaml.safe_load_all(capsys.readouterr().out)
    volumes = made["spec"]["template"]["spec"]["volumes"]
    assert [each["secret"]["secretName"] for each in volumes if "secret" in each] == ["ca"]
    api.call("POST", f"{job.config_maps_path}?fieldValidation=Strict", files)
    api.call("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs?fieldValidation=Strict", made)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "command"}, "spec": made["spec"]["template"]["spec"]}
    api.call("POST", f"{job.pods_path}?fieldValidation=Strict", pod)
    pod["spec"]["containers"][0].pop("securityContext")
    with pytest.raises(ApiError, match="violates PodSecurity"):
        api.call("POST", job.pods_path, {**pod, "metadata": {"name": "another"}})
