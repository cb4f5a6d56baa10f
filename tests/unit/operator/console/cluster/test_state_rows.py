"""``kafkaspark state read`` and ``state diff``: which job is meant, and the pod that reads its volume."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes.config import kube_config

from kafkaspark.__main__ import main
from kafkaspark.cluster import state_rows
from kafkaspark.cluster.user_cluster import UserCluster
from sparkapp.checkpoint.store import FileStore
from sparkapp.cli.job_checkpoints import FoundJob
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import StateStoreUnusable
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.query_log import EngineState, encode_engine

SPEC = {"checkpoint": {"stateVolume": {"claimName": "orders-state"}}, "image": "r/sparkapp:1"}
FOUND = FoundJob(uid="job-uid", text="{}", texts={"checkpoint-4.json": "{}"}, spec=SPEC)


class Cluster:
    """With a job that keeps state."""

    namespace = "shop"

    def job(self, _namespace: str, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "shop", "uid": "job-uid"}, "spec": SPEC}

    def pods(self, _namespace: str, _name: str) -> list[dict[str, Any]]:
        return []


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[FoundJob]:
    """What the cluster has."""
    held = [FOUND]
    monkeypatch.setattr(UserCluster, "of_context", lambda _: Cluster())
    monkeypatch.setattr(state_rows, "checkpoints_of", lambda **_: SimpleNamespace(find=lambda: held[0]))
    return held


def printed(capsys: Any, *arguments: str) -> list[dict[str, Any]]:
    assert main(["state", *arguments, "--namespace", "shop", "--in-cluster", "print"]) == 0, capsys.readouterr().err
    return list(yaml.safe_load_all(capsys.readouterr().out))


@pytest.mark.usefixtures("found")
def test_the_pod_reads_the_claim_and_writes_nothing_to_it(capsys: Any) -> None:
    config_map, job = printed(
        capsys, "diff", "orders", "--checkpoint", "4", "--operator", "0", "--store", "left", "--key", "-5", "--output",
        "json",
    )  # fmt: skip
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][:6] == ["python3", "-m", "kafkaspark", "state", "diff", "orders"]
    assert set(container["args"][6:]) == {
        "--checkpoint=4", "--operator=0", "--store=left", "--key=-5", "--limit=100", "--output=json",
        f"--folder={names.STATE_DIRECTORY}/job-uid", "--found=/etc/kafkaspark/command/checkpoints.json",
    }  # fmt: skip
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["state"]["persistentVolumeClaim"] == {"claimName": "orders-state", "readOnly": True}
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert (mounts["state"]["mountPath"], mounts["state"]["readOnly"]) == (names.STATE_DIRECTORY, True)
    assert container["image"] == "r/sparkapp:1"
    parts = json.loads(config_map["data"]["checkpoints.json"])
    assert FoundJob(**parts) == replace(FOUND, spec={})


@pytest.mark.usefixtures("found")
def test_the_volume_of_a_cluster_is_not_looked_for_here(capsys: Any) -> None:
    assert main(["state", "read", "orders", "--namespace", "shop"]) == 1
    answer = capsys.readouterr().err
    assert "the state is on the volume of claim orders-state" in answer
    assert "--in-cluster run" in answer


@pytest.mark.parametrize("options", [[], ["--in-cluster", "run"]])
def test_a_job_without_a_volume_has_no_rows(found: list[FoundJob], capsys: Any, options: list[str]) -> None:
    found[0] = replace(FOUND, spec={})
    assert main(["state", "read", "orders", "--namespace", "shop", *options]) == 1
    assert "no place for state" in capsys.readouterr().err


S3 = {"bucket": "state", "prefix": "jobs", "credentials": {"secretName": "access", "accessKeyId": "user"}}
STORED = replace(FOUND, spec={"checkpoint": {"state": {"storage": {"s3": S3}}}, "image": "r/sparkapp-s3:1"})


def test_the_pod_reads_the_bucket_with_the_access_key_of_the_job(found: list[FoundJob], capsys: Any) -> None:
    found[0] = STORED
    config_map, job = printed(capsys, "read", "orders", "--operator", "0")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert not [each for each in container["args"] if each.startswith("--folder")]
    assert [volume["name"] for volume in pod["volumes"]] == ["tmp", "files"]
    assert container["env"] == [
        {"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": {"name": "access", "key": "user"}}},
        {
            "name": "AWS_SECRET_ACCESS_KEY",
            "valueFrom": {"secretKeyRef": {"name": "access", "key": "AWS_SECRET_ACCESS_KEY"}},
        },
    ]
    assert container["resources"]["limits"] == {"memory": "2Gi", "ephemeral-storage": "16Gi"}
    parts = json.loads(config_map["data"]["checkpoints.json"])
    assert FoundJob(**parts) == replace(STORED, spec={"checkpoint": STORED.spec["checkpoint"]})


def test_a_bucket_that_this_machine_cannot_read_is_named(
    found: list[FoundJob], capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command reads a bucket from here, too, as other tools do."""
    engine = encode_engine(EngineState(3, base=2, attempt=1))
    document = CheckpointDocument(
        job_uid="job-uid", attempt=1, checkpoint_id=4, created_at="2026-11-21T09:00:00Z", parallelism=1, prefix="p",
        engine=engine, engine_has_state=True,
    )  # fmt: skip
    found[0] = replace(STORED, text=encode(document))
    asked: list[str] = []

    def sizes(store: ObjectStore, below: str) -> dict[str, int]:
        asked.append(f"{store.folder}/{below}")
        msg = "the store of query state, s3://state/jobs, cannot be used: AWS Error ACCESS_DENIED"
        raise StateStoreUnusable(msg)

    monkeypatch.setattr(ObjectStore, "sizes", sizes)
    assert main(["state", "read", "orders", "--namespace", "shop"]) == 1
    answer = capsys.readouterr().err
    assert asked == ["state/jobs/job-uid/attempt-1/state"]
    assert "s3://state/jobs, cannot be used: AWS Error ACCESS_DENIED" in answer
    assert "add --in-cluster run" in answer


def test_two_names_are_refused(capsys: Any) -> None:
    assert main(["state", "orders", "another"]) == 1
    assert "orders is neither read nor diff, and another follows it" in capsys.readouterr().err


def test_the_state_of_a_file_is_shown_without_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The option was ignored, and a cluster was asked for the job."""
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    file, partition = tmp_path / "state", TopicPartition("in", 0)
    document = CheckpointDocument(
        job_uid="job-uid", attempt=1, checkpoint_id=4, created_at="2026-11-21T09:00:00Z", parallelism=1, prefix="p",
        splits=(KafkaPartitionSplit(partition, 7, 7),),
    )  # fmt: skip
    FileStore(file).write(encode(document), expected="0")
    assert main(["state", "orders", "--state", str(file), "--output", "json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["checkpoint"]["id"], state["snapshots"]) == (4, [])
    assert state["offsets"] == [{"topic": "in", "partition": 0, "offset": 7}]
    assert main(["state", "orders", "--state", str(file)]) == 0
    assert "kafkaspark" not in capsys.readouterr().out, "these commands are for jobs of a cluster"


@pytest.mark.parametrize("command", [["restore", "orders", "--checkpoint", "1"], ["topic", "list", "--job", "orders"]])
def test_a_command_without_the_option_does_not_recommend_it(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "no cluster is configured" in said
    assert "--state" not in said
