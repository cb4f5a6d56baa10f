"""KafkaSparkSnapshots on a real API server, with the chart's rights and admission policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaspark.__main__ import main
from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapRetainedStore, ConfigMapStore
from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.recovery import recover
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import decode_snapshot, encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.codec import decode_job
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import AttemptOutcome, Beginnings, Termination
from sparkapp.spark.state.retained_state import QueryState
from tests.support.fakes.group_evidence import NoMarks
from tests.support.fakes.transactions import FakeControl
from tests.support.kubernetes.api_client import SNAPSHOTS, ApiClient, ApiError, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.live_snapshot import LiveSnapshot
from tests.support.kubernetes.operator_process import Running

FIRST, SECOND = (TopicPartition("orders", number) for number in range(2))
SPLITS = (KafkaPartitionSplit(FIRST, 0, 40), KafkaPartitionSplit(SECOND, 0, 60))


def delete_job(job: LiveJob, attempt: int) -> None:
    """Deletes the job, and waits until Kubernetes has collected what it owns."""
    job.api.call("DELETE", job.path)
    job.release(attempt)
    state = f"{job.config_maps_path}/{names.state_config_map(job.name)}"
    await_that("the state is collected", lambda: job.api.get(state) is None)


def test_a_snapshot_outlives_its_job(running: Running, api: ApiClient) -> None:
    namespace = running.place.namespace
    job = LiveJob(api, namespace, "outlived")
    job.create()
    uid = job.uid()
    snapshot = LiveSnapshot(api, namespace, "of-outlived")
    snapshot.create(job.name)
    snapshot.await_state("Pending", reason="NoCheckpoint")
    job.await_driver(1)
    job.checkpoint(1, 12, splits=SPLITS, cluster_id="kafka-1")
    status = snapshot.await_state("Ready", reason="Pinned")
    assert (status["checkpoint"]["id"], status["checkpoint"]["partitions"]) == (12, 2)
    assert (status["jobUID"], status["checkpoint"]["clusterId"]) == (uid, "kafka-1")
    delete_job(job, 1)
    kept = snapshot.config_map()
    assert kept["metadata"]["uid"] == status["configMap"]["uid"]
    checkpoint = decode_snapshot(kept["data"][names.SNAPSHOT_KEY], job_uid=uid)
    assert dict(checkpoint.offsets) == {FIRST: 40, SECOND: 60}
    assert {**snapshot.status, "conditions": []} == {**status, "conditions": []}
    api.call("DELETE", snapshot.path)
    path = f"{job.config_maps_path}/{kept['metadata']['name']}"
    await_that("its ConfigMap is collected", lambda: api.get(path) is None)


def test_a_new_job_begins_at_the_snapshot_of_a_deleted_job(running: Running, api: ApiClient, core: Any) -> None:
    namespace = running.place.namespace
    first = LiveJob(api, namespace, "first-life")
    first.create()
    first.await_driver(1)
    first.checkpoint(1, 12, splits=SPLITS, cluster_id="kafka-1")
    snapshot = LiveSnapshot(api, namespace, "of-first-life")
    snapshot.create(first.name)
    snapshot.await_state("Ready", reason="Pinned")
    delete_job(first, 1)

    second = LiveJob(api, namespace, "second-life")
    second.create(startFrom={"snapshot": "of-first-lif"})
    second.await_state("Pending", reason="SnapshotNotReady")
    assert "no KafkaSparkSnapshot of-first-lif" in second.status["message"]
    second.edit(startFrom={"snapshot": snapshot.name})
    second.await_driver(1, hold=False)
    job = decode_job(second.record(1)["data"][names.JOB_KEY])
    store = ConfigMapStore(core, namespace=namespace, job=second.name, uid=second.uid())
    place = {"namespace": namespace, "job": second.name, "uid": second.uid()}
    recovery = recover(
        job, store=store, control=FakeControl(), now="2026-11-21T12:00:00Z",
        retained=ConfigMapRetainedStore(core, **place), engine=QueryState(), clusters=ClusterIds("kafka-1", "kafka-1"),
        marks=NoMarks(),
    )  # fmt: skip
    assert recovery.restored is not None
    document = decode(str(store.read().text), job_uid=second.uid())
    assert (document.checkpoint_id, document.offsets) == (1, {FIRST: 40, SECOND: 60})


def test_a_snapshot_of_a_job_with_state_pins_it_until_its_deletion(running: Running, api: ApiClient, core: Any) -> None:
    namespace = running.place.namespace
    job = LiveJob(api, namespace, "stateful")
    job.create(checkpoint={"stateVolume": {"claimName": "state"}}, transform={"python": {"function": "app:run"}})
    job.await_driver(1, hold=False)
    job.checkpoint(1, 12, splits=SPLITS, engine_has_state=True)
    driver = ConfigMapRetainedStore(core, namespace=namespace, job=job.name, uid=job.uid())
    snapshot = LiveSnapshot(api, namespace, "of-stateful")
    snapshot.create(job.name)
    snapshot.await_state("Pending", reason="StateNotRetained")
    document = CheckpointDocument(
        job_uid=job.uid(), attempt=1, checkpoint_id=12, created_at="2026-11-21T12:00:00Z", parallelism=2, prefix="x",
        splits=SPLITS,
    )  # fmt: skip
    driver.change({retained_key(12): encode_retained(retained(document, engine="of the engine"))}, [])
    status = snapshot.await_state("Ready", reason="Pinned")
    assert status["checkpoint"]["stateFolder"] == f"{job.uid()}/retained/checkpoint-12"
    assert list(driver.pinned()) == [12]
    api.call("DELETE", snapshot.path)
    await_that("the pin is gone", lambda: not driver.pinned())


def of_the_operator(api: ApiClient, job: LiveJob) -> dict[str, dict[str, Any]]:
    """The snapshots that the operator has made of the job, by name."""
    found = api.items(SNAPSHOTS.format(job.namespace))
    return {each["metadata"]["name"]: each for each in found if each["spec"]["jobRef"].get("uid") == job.uid()}


def test_the_operator_makes_snapshots_and_keeps_the_newest(running: Running, api: ApiClient) -> None:
    job = LiveJob(api, running.place.namespace, "periodic")
    job.create(snapshots={"intervalSeconds": 60, "count": 1})
    own = LiveSnapshot(api, job.namespace, "periodic-by-hand")
    own.create(job.name)
    job.run(1, hold=False)
    await_that("the first is kept", lambda: "ready" in job.status.get("snapshots", {}))
    first = job.status["snapshots"]["ready"]
    assert of_the_operator(api, job)[first]["spec"]["trigger"] == "Periodic"
    own.await_state("Ready", reason="Pinned")
    job.checkpoint(1, 11)
    job.report(1, checkpoint_id=11)
    await_that("the next replaces it", lambda: job.status["snapshots"].get("checkpoint") == 11, seconds=100)
    await_that("the first is gone", lambda: first not in of_the_operator(api, job))
    assert own.status["state"] == "Ready"
    assert "SnapshotMade" in [reason for reason, _ in job.events]
    assert "SnapshotFailed" not in [reason for reason, _ in job.events]


def test_a_change_waits_for_its_snapshot(running: Running, api: ApiClient) -> None:
    job = LiveJob(api, running.place.namespace, "careful")
    job.create(upgrade={"snapshot": True})
    job.run(1)
    job.edit(sink={"topic": "another"})
    job.await_deletion(1)
    (made,) = of_the_operator(api, job).values()
    assert (made["spec"]["trigger"], made["status"]["state"]) == ("Upgrade", "Ready")
    assert made["status"]["checkpoint"]["id"] == 10
    job.release(1)


def test_a_deleted_job_leaves_a_snapshot_of_its_last_checkpoint(running: Running, api: ApiClient) -> None:
    job = LiveJob(api, running.place.namespace, "last-words")
    job.create(deletion={"snapshot": True})
    job.run(1)
    uid = job.uid()
    api.call("DELETE", job.path)
    job.await_deletion(1)
    job.checkpoint(1, 11, drained=True)
    ending = Termination(outcome=AttemptOutcome.DRAINED, reason="Drained", message="stopped", checkpoint_id=11)
    job.ends(1, ending, code=0, reason="Completed")
    job.release(1)
    await_that("the resource is gone", lambda: api.get(job.path) is None)
    snapshot = LiveSnapshot(api, job.namespace, names.deletion_snapshot(job.name, uid))
    assert (snapshot.status["state"], snapshot.status["checkpoint"]["id"]) == ("Ready", 11)


@pytest.mark.usefixtures("core")
def test_a_snapshot_is_exported_and_imported(running: Running, api: ApiClient, tmp_path: Path) -> None:
    namespace = running.place.namespace
    job = LiveJob(api, namespace, "exported")
    job.create()
    job.run(1, hold=False)
    first = LiveSnapshot(api, namespace, "here")
    first.create(job.name)
    first.await_state("Ready", reason="Pinned")
    file = tmp_path / "here.yaml"
    command = ["snapshot", "export", "here", "--namespace", namespace, "--output", str(file)]
    assert main(command) == 0
    manifest = yaml.safe_load(file.read_text(encoding="utf-8"))
    manifest["metadata"] = {"name": "there"}
    api.call("POST", f"{SNAPSHOTS.format(namespace)}?fieldValidation=Strict", manifest)
    second = LiveSnapshot(api, namespace, "there")
    status = second.await_state("Ready", reason="Pinned")
    assert status["checkpoint"] == first.status["checkpoint"]
    assert second.config_map()["data"] == first.config_map()["data"]
    manifest |= {"metadata": {"name": "damaged"}, "spec": {**manifest["spec"], "checkpoint": "{"}}
    api.call("POST", SNAPSHOTS.format(namespace), manifest)
    LiveSnapshot(api, namespace, "damaged").await_state("Failed", reason="ImportUnusable")


def test_a_snapshot_says_what_retention_has_deleted(running: Running, api: ApiClient) -> None:
    job = LiveJob(api, running.place.namespace, "forgetful")
    job.create()
    job.run(1, hold=False)
    job.checkpoint(1, 12, splits=SPLITS)
    snapshot = LiveSnapshot(api, job.namespace, "of-forgetful")
    snapshot.create(job.name)
    snapshot.await_state("Ready", reason="Pinned")
    beginnings = Beginnings(offsets={FIRST: 41, SECOND: 0})
    with job.beating(1, checkpoint_id=12, beginnings=beginnings):
        await_that("it says so", lambda: snapshot.condition("OffsetsRetained") == "False", seconds=150)


def test_the_operators_token_deletes_and_makes_no_snapshot_of_a_person(running: Running, api: ApiClient) -> None:
    token = ApiClient(running.place.kubeconfig)
    snapshot = LiveSnapshot(api, running.place.namespace, "of-a-person")
    snapshot.create("nobody")
    with pytest.raises(ApiError, match="the operator creates and deletes its own snapshots only"):
        token.call("DELETE", snapshot.path)
    with pytest.raises(ApiError, match="the operator creates and deletes its own snapshots only"):
        LiveSnapshot(token, running.place.namespace, "of-the-operator").create("nobody")


def test_a_snapshot_and_its_config_map_cannot_be_changed(running: Running, api: ApiClient) -> None:
    namespace = running.place.namespace
    job = LiveJob(api, namespace, "fixed")
    job.create()
    job.await_driver(1, hold=False)
    job.checkpoint(1, 12, splits=SPLITS)
    snapshot = LiveSnapshot(api, namespace, "of-fixed")
    snapshot.create(job.name)
    snapshot.await_state("Ready", reason="Pinned")
    with pytest.raises(ApiError, match="a snapshot cannot be changed: create another KafkaSparkSnapshot"):
        api.merge(snapshot.path, {"spec": {"jobRef": {"name": "another"}}})
    name = snapshot.status["configMap"]["name"]
    with pytest.raises(ApiError, match="immutable"):
        api.merge(f"{job.config_maps_path}/{name}", {"data": {names.SNAPSHOT_KEY: "{}"}})


def test_kubectl_lists_job_checkpoint_and_readiness(api: ApiClient, namespace: str) -> None:
    snapshot = LiveSnapshot(api, namespace)
    snapshot.create()
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    columns = api.call("GET", snapshot.path, accept=table)["columnDefinitions"]
    shown = [each["name"] for each in columns if not each["priority"]]
    assert shown == ["Name", "Job", "Checkpoint", "Ready", "Age"]


def test_a_name_that_leaves_no_room_for_the_config_map_is_refused(api: ApiClient, namespace: str) -> None:
    with pytest.raises(ApiError, match="at most 200 characters"):
        LiveSnapshot(api, namespace, "a" * 201).create()
