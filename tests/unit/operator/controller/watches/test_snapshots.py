"""A snapshot copies the job's last completed checkpoint into an immutable ConfigMap of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasparkjob_operator.controller.watches.snapshots import RETRY_SECONDS, Snapshots
from kafkasparkjob_operator.decisions.checks.snapshots import GIVE_UP_SECONDS
from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectRefused
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import decode_snapshot, encode_retained
from tests.support.fakes.kubernetes import Body, FakeKubernetes
from tests.support.kubernetes.operator_fixture import KEY, UID, OperatorFixture
from tests.support.kubernetes.state_fixture import document

FINAL = replace(document(UID), committables=(), cluster_id="abc")
CONFIG_MAP = names.snapshot_config_map("before", "snapshot-uid")


class Rig(OperatorFixture):
    """A running job, and the controller of snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds, self.watched = 0.0, True
        self.restart_snapshots()

    def restart_snapshots(self) -> None:
        self.snapshots = Snapshots(
            self.kubernetes, may_act=lambda: self.leading, includes=lambda _: self.watched,
            monotonic=lambda: self.seconds, now=lambda: self.now,
        )  # fmt: skip

    async def with_state(self) -> None:
        await self.run()
        self.set_state(encode(FINAL))

    def set_state(self, text: str) -> None:
        self.kubernetes.set_data(KEY, names.state_config_map(KEY.name), names.CHECKPOINT_KEY, text)

    def create(self, job: str = KEY.name) -> None:
        meta = {
            "namespace": KEY.namespace, "name": "before", "uid": "snapshot-uid", "generation": 1, "resourceVersion": "1"
        }  # fmt: skip
        body = {"kind": names.SNAPSHOT_KIND, "metadata": meta, "spec": {"jobRef": {"name": job}}}
        self.kubernetes.objects[names.SNAPSHOT_KIND, KEY.namespace, "before"] = body
        self.snapshots.put(body)

    @property
    def body(self) -> Body:
        return self.kubernetes.objects[names.SNAPSHOT_KIND, KEY.namespace, "before"]

    @property
    def snapshot_status(self) -> dict[str, Any]:
        return dict(self.body.get("status") or {})

    def config_map(self) -> Body | None:
        return self.kubernetes.objects.get(("ConfigMap", KEY.namespace, CONFIG_MAP))


@pytest.fixture
async def rig() -> Rig:
    rig = Rig()
    await rig.with_state()
    return rig


async def test_the_config_map_is_immutable_and_belongs_to_the_snapshot_alone(rig: Rig) -> None:
    rig.create()
    await rig.snapshots.round()
    made = rig.config_map()
    assert made is not None
    assert made["immutable"] is True
    assert [(owner["kind"], owner["uid"]) for owner in made["metadata"]["ownerReferences"]] == [
        (names.SNAPSHOT_KIND, "snapshot-uid")
    ]
    assert made["metadata"]["annotations"] == {names.ANNOTATION_JOB_UID: UID}
    assert decode_snapshot(made["data"][names.SNAPSHOT_KEY], job_uid=UID) == retained(FINAL)
    status = rig.snapshot_status
    assert status["configMap"] == {"name": CONFIG_MAP, "uid": made["metadata"]["uid"]}
    assert (status["state"], status["reason"], status["jobUID"]) == ("Ready", "Pinned", UID)
    assert status["checkpoint"] == {
        "id": 7, "time": FINAL.created_at, "attempt": 3, "clusterId": "abc", "partitions": 4,
        "topics": [{"topic": "in", "partitions": 4}], "recordsIn": 0, "recordsOut": 0,
    }  # fmt: skip
    assert [(each["type"], each["status"], each["reason"]) for each in status["conditions"]] == [
        ("Ready", "True", "Pinned")
    ]


async def test_a_ready_snapshot_is_left_alone(rig: Rig) -> None:
    rig.create()
    await rig.snapshots.round()
    writes = len(rig.kubernetes.writes)
    rig.snapshots.put(rig.body)
    await rig.snapshots.round()
    assert len(rig.kubernetes.writes) == writes


def imported(rig: Rig, text: str) -> None:
    """A snapshot that was exported from another cluster, of a job that does not exist here."""
    rig.create(job="elsewhere")
    rig.body["spec"]["checkpoint"] = text
    rig.snapshots.put(rig.body)


async def test_an_exported_checkpoint_needs_no_job(rig: Rig) -> None:
    foreign = retained(replace(FINAL, job_uid="foreign", cluster_id="another"))
    imported(rig, encode_retained(foreign))
    await rig.snapshots.round()
    status, made = rig.snapshot_status, rig.config_map()
    assert made is not None
    assert decode_snapshot(made["data"][names.SNAPSHOT_KEY], job_uid="foreign") == foreign
    assert (status["state"], status["jobUID"], status["checkpoint"]["clusterId"]) == ("Ready", "foreign", "another")
    assert made["metadata"]["labels"][names.LABEL_JOB] == "elsewhere"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "ImportUnusable"), ("[" * 100_000, "ImportUnusable"), ('{"formatVersion": 99}', "ImportUnusable"),
        (encode_retained(retained(FINAL)).replace('"offsets"', '"other"'), "ImportUnusable"),
    ],
    ids=["cut", "deep", "version", "fields"],
)  # fmt: skip
async def test_a_hostile_import_fails_at_once(rig: Rig, text: str, reason: str) -> None:
    imported(rig, text)
    await rig.snapshots.round()
    assert (rig.snapshot_status["state"], rig.snapshot_status["reason"]) == ("Failed", reason)
    assert rig.config_map() is None


async def test_a_job_of_another_uid_than_the_snapshot_names_fails_it(rig: Rig) -> None:
    rig.create()
    rig.body["spec"]["jobRef"]["uid"] = "of-before"
    await rig.snapshots.round()
    assert (rig.snapshot_status["state"], rig.snapshot_status["reason"]) == ("Failed", "JobRecreated")


async def test_a_snapshot_waits_for_a_checkpoint_and_then_has_it(rig: Rig) -> None:
    rig.set_state(encode(replace(FINAL, checkpoint_id=0)))
    rig.create()
    await rig.snapshots.round()
    assert (rig.snapshot_status["state"], rig.snapshot_status["reason"]) == ("Pending", "NoCheckpoint")
    assert rig.snapshot_status["jobUID"] == UID
    writes = len(rig.kubernetes.writes)
    await rig.snapshots.round()
    assert len(rig.kubernetes.writes) == writes, "nothing new to say"
    rig.set_state(encode(FINAL))
    await rig.snapshots.round()
    assert rig.snapshot_status["state"] == "Ready"


async def test_a_refusal_has_its_remedy_and_is_final(rig: Rig) -> None:
    rig.set_state(encode(replace(FINAL, engine_has_state=True)))
    rig.create()
    await rig.snapshots.round()
    assert (rig.snapshot_status["state"], rig.snapshot_status["reason"]) == ("Pending", "StateNotRetained")
    rig.seconds += GIVE_UP_SECONDS
    await rig.snapshots.round()
    status = rig.snapshot_status
    assert (status["state"], status["reason"]) == ("Failed", "StateNotRetained")
    assert "Set `checkpoint.retention.count` to 1 or more" in status["message"]
    assert status["conditions"][0]["status"] == "False"
    rig.set_state(encode(FINAL))
    await rig.snapshots.round()
    assert rig.snapshot_status["state"] == "Failed"


def retain(rig: Rig, number: int) -> None:
    """Checkpoint 7 is that of the document."""
    entry = encode_retained(retained(replace(FINAL, checkpoint_id=number), engine="of the engine"))
    rig.kubernetes.set_data(KEY, names.checkpoints_config_map(KEY.name), retained_key(number), entry)


GAP = ". The job was at checkpoint 7: a job that begins here may write again what it has written since"


@pytest.mark.parametrize(("number", "says"), [(5, True), (7, False)])
async def test_a_snapshot_behind_the_jobs_last_checkpoint_says_so(rig: Rig, number: int, says: bool) -> None:
    rig.set_state(encode(replace(FINAL, engine_has_state=True)))
    retain(rig, number)
    rig.create()
    await rig.snapshots.round()
    status = rig.snapshot_status
    assert (status["state"], status["checkpoint"]["id"]) == ("Ready", number)
    assert status["message"].endswith(GAP) is says


async def test_an_operator_that_ended_before_the_status_is_succeeded(rig: Rig) -> None:
    rig.create()
    rig.kubernetes.fail_write = 0
    await rig.snapshots.round()
    assert rig.config_map() is not None
    assert "state" not in rig.snapshot_status
    rig.set_state(encode(replace(FINAL, checkpoint_id=8)))
    rig.restart_snapshots()
    rig.snapshots.put(rig.body)
    await rig.snapshots.round()
    assert rig.snapshot_status["checkpoint"]["id"] == 7, "what the ConfigMap has"


async def test_a_foreign_config_map_of_the_name_is_not_taken_for_the_snapshots(rig: Rig) -> None:
    meta = {"namespace": KEY.namespace, "name": CONFIG_MAP, "labels": names.labels("orders", role="snapshot")}
    await rig.kubernetes.create({"kind": "ConfigMap", "metadata": meta, "immutable": True, "data": {}})
    rig.create()
    await rig.snapshots.round()
    assert (rig.snapshot_status["state"], rig.snapshot_status["reason"]) == ("Failed", "SnapshotNameTaken")
    assert f"kubectl delete configmap {CONFIG_MAP} -n team" in rig.snapshot_status["message"]


async def test_a_refused_config_map_is_tried_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(_: object, manifest: Body) -> Body:
        msg = "exceeded quota: few, requested: count/configmaps=1"
        raise ObjectRefused(msg, status=403)

    rig.create()
    with monkeypatch.context() as patched:
        patched.setattr(FakeKubernetes, "create", refuses)
        await rig.snapshots.round()
    assert (rig.snapshot_status["state"], rig.snapshot_status["reason"]) == ("Pending", "PinRefused")
    await rig.snapshots.round()
    assert rig.snapshot_status["state"] == "Ready"


async def test_a_config_map_that_stays_refused_fails_the_snapshot(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(*_: object) -> None:
        msg = "exceeded quota"
        raise ObjectRefused(msg, status=403)

    monkeypatch.setattr(FakeKubernetes, "create", refuses)
    rig.create()
    await rig.snapshots.round()
    assert rig.snapshot_status["state"] == "Pending"
    rig.seconds += GIVE_UP_SECONDS
    await rig.snapshots.round()
    assert (rig.snapshot_status["state"], rig.snapshot_status["reason"]) == ("Failed", "PinRefused")


async def test_restarts_of_the_operator_prolong_no_wait(rig: Rig) -> None:
    rig.set_state(encode(replace(FINAL, checkpoint_id=0)))
    rig.create()
    for _ in range(4):
        await rig.snapshots.round()
        assert rig.snapshot_status["state"] == "Pending"
        rig.wait(GIVE_UP_SECONDS / 4)
        rig.restart_snapshots()
        rig.snapshots.put(rig.body)
    await rig.snapshots.round()
    assert (rig.snapshot_status["state"], rig.snapshot_status["reason"]) == ("Failed", "NoCheckpoint")


async def test_a_failure_of_the_api_server_is_retried_after_a_pause(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        msg = "no answer"
        raise ClusterError(msg)

    rig.create()
    with monkeypatch.context() as patched:
        patched.setattr(FakeKubernetes, "get", fails)
        await rig.snapshots.round()
    await rig.snapshots.round()
    assert rig.snapshot_status == {}
    rig.seconds += RETRY_SECONDS
    await rig.snapshots.round()
    assert rig.snapshot_status["state"] == "Ready"


@pytest.mark.parametrize("switch", ["leading", "watched"])
async def test_without_leadership_or_outside_the_namespaces_nothing_is_written(rig: Rig, switch: str) -> None:
    setattr(rig, switch, False)
    rig.create()
    await rig.snapshots.round()
    assert rig.snapshot_status == {}
    setattr(rig, switch, True)
    await rig.snapshots.round()
    assert rig.snapshot_status["state"] == "Ready"


async def test_a_snapshot_that_was_deleted_is_forgotten(rig: Rig) -> None:
    rig.create()
    rig.snapshots.put(rig.body, deleted=True)
    await rig.snapshots.round()
    assert rig.config_map() is None
