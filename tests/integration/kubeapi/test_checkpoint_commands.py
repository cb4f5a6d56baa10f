"""Earlier checkpoints and the commands for them on a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.config_maps import checkpoints_config_map, state_config_map
from sparkapp.__main__ import main
from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapRetainedStore, ConfigMapStore
from sparkapp.checkpoint.kubernetes.job_resource import JobResources
from sparkapp.checkpoint.retained import CheckpointRetainer
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointConflict, CheckpointMissing
from sparkapp.model.job.sections.retention import Retention
from sparkapp.model.partition import TopicPartition
from tests.support.fakes.memory_store import MemoryStore
from tests.support.kubernetes.api_client import ApiClient
from tests.support.kubernetes.api_server_job import LiveJob

MERGE = "application/merge-patch+json"


@pytest.fixture
def job(api: ApiClient, namespace: str) -> LiveJob:
    return LiveJob(api, namespace)


@pytest.fixture
def checkpoint(job: LiveJob) -> Callable[..., CheckpointDocument]:
    uid = job.create(restore={"nonce": 3})["metadata"]["uid"]
    identity = JobIdentity(job.namespace, job.name, uid)
    for manifest in (state_config_map(identity), checkpoints_config_map(identity)):
        job.api.call("POST", job.config_maps_path, manifest)
    base = CheckpointDocument(job_uid=uid, attempt=1, checkpoint_id=1, created_at="", parallelism=1, prefix="p")

    def make(number: int, **changes: Any) -> CheckpointDocument:
        splits = (KafkaPartitionSplit(TopicPartition("orders", 0), 0, 10 * number),)
        created_at = f"2026-11-21T08:{number:02}:00Z"
        return replace(base, checkpoint_id=number, created_at=created_at, splits=splits, **changes)

    return make


def keep(core: Any, job: LiveJob, documents: list[CheckpointDocument], count: int = 10) -> list[str]:
    """As a driver does; returns its events' messages."""
    events: list[str] = []
    for each in documents:
        claim = Claim(MemoryStore(encode(each)), job_uid=each.job_uid, attempt=each.attempt)
        retainer = CheckpointRetainer(
            ConfigMapRetainedStore(core, namespace=job.namespace, job=job.name, uid=job.uid()), claim=claim,
            retention=Retention(count=count), latest=each.checkpoint_id, tell=lambda _, message: events.append(message),
            draining=lambda: False,
        )  # fmt: skip
        retainer.offer(each)
        retainer.close()
    return events


def test_earlier_checkpoints_are_added_and_removed_key_by_key(
    core: Any, job: LiveJob, checkpoint: Callable[..., CheckpointDocument]
) -> None:
    store = ConfigMapRetainedStore(core, namespace=job.namespace, job=job.name, uid=job.uid())
    assert store.read() == {}
    assert keep(core, job, [checkpoint(number) for number in range(1, 6)], count=2) == []
    assert sorted(store.read()) == ["checkpoint-4.json", "checkpoint-5.json"]


def test_without_its_config_map_nothing_is_kept_and_nothing_fails(
    core: Any, job: LiveJob, checkpoint: Callable[..., CheckpointDocument]
) -> None:
    job.api.call("DELETE", f"{job.config_maps_path}/{job.name}-checkpoints")
    store = ConfigMapRetainedStore(core, namespace=job.namespace, job=job.name, uid=job.uid())
    assert store.read() == {}
    with pytest.raises(CheckpointMissing):
        store.change({"checkpoint-1.json": "{}"}, [])
    (events,) = keep(core, job, [checkpoint(1)])
    assert (
        "checkpoint 1 could not be retained (the job continues): ConfigMap orders-checkpoints does not exist" in events
    )


def test_the_commands_find_the_job_and_change_it_only_with_the_flag(
    core: Any, job: LiveJob, checkpoint: Callable[..., CheckpointDocument], capsys: pytest.CaptureFixture[str]
) -> None:
    keep(core, job, [checkpoint(1), checkpoint(2)])
    ConfigMapStore(core, namespace=job.namespace, job=job.name, uid=job.uid()).write(
        encode(checkpoint(7)),
        expected=job.api.call("GET", f"{job.config_maps_path}/{job.name}-state")["metadata"]["resourceVersion"],
    )
    named = ["--namespace", job.namespace, "--job", job.name]
    assert main(["checkpoint", "list", *named, "-o", "json"]) == 0
    assert [row["checkpoint"] for row in json.loads(capsys.readouterr().out)] == [7, 2, 1]
    assert main(["checkpoint", "verify", *named]) == 0
    assert main(["checkpoint", "restore", "2", *named]) == 0
    assert "50 record(s) of 1 partition(s) are read and written again" in capsys.readouterr().out
    assert job.body["spec"]["restore"] == {"nonce": 3}
    assert main(["checkpoint", "restore", "2", *named, "--yes"]) == 0
    assert job.body["spec"]["restore"] == {"checkpoint": 2, "nonce": 4}
    assert main(["checkpoint", "list", "--namespace", job.namespace, "--job", "nobody"]) == 1
    assert "answered 404" in capsys.readouterr().err


def test_the_way_back_that_a_lost_state_names_can_be_gone(
    core: Any, job: LiveJob, checkpoint: Callable[..., CheckpointDocument], capsys: pytest.CaptureFixture[str]
) -> None:
    """Earlier checkpoints and their offsets are shown where there is no current one any more."""
    keep(core, job, [checkpoint(1), checkpoint(2)])
    state = f"{job.config_maps_path}/{job.name}-state"
    named = ["--namespace", job.namespace, "--job", job.name]
    job.api.call("PATCH", state, {"binaryData": {"checkpoint.json": "H4sI"}}, content_type=MERGE)
    assert main(["checkpoint", "show", "2", *named, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"topic": "orders", "partition": 0, "offset": 20, "behindCurrent": None}
    ]
    job.api.call("DELETE", state)
    assert main(["checkpoint", "list", *named, "-o", "json"]) == 0
    current, *earlier = json.loads(capsys.readouterr().out)
    assert (current["kind"], current["note"]) == ("current, unusable", "ConfigMap orders-state does not exist")
    assert [row["checkpoint"] for row in earlier] == [2, 1]
    assert main(["checkpoint", "show", "1", *named]) == 0
    for command in (["show"], ["restore", "2", "--yes"]):
        assert main(["checkpoint", *command, *named]) == 1
        assert "StateMissing: ConfigMap orders-state does not exist" in capsys.readouterr().err


def test_a_job_that_has_changed_meanwhile_is_not_patched(
    core: Any, job: LiveJob, checkpoint: Callable[..., CheckpointDocument]
) -> None:
    assert checkpoint(1)
    version = job.body["metadata"]["resourceVersion"]
    job.edit(parallelism=3)
    with pytest.raises(CheckpointConflict, match="was changed meanwhile"):
        JobResources(namespace=job.namespace, job=job.name).patch_spec({"restore": {"nonce": 4}}, expected=version)
    assert job.body["spec"]["restore"] == {"nonce": 3}
