"""The condition OffsetsRetained of a snapshot: told before anybody needs the snapshot."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.controller.cache import FRESH_SECONDS
from kafkasparkjob_operator.controller.watches.retention import Retention
from kafkasparkjob_operator.kubernetes.port import ObjectConflict
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import Beginnings
from tests.support.kubernetes.operator_fixture import KEY, UID
from tests.support.kubernetes.snapshot_fixture import SnapshotFixture

PARTITION = TopicPartition("orders", 0)


class Rig(SnapshotFixture):
    """A job with a snapshot at its offsets, and what judges it."""

    def restart_operator(self, **keywords: Any) -> None:
        super().restart_operator(**keywords)
        self.retention = Retention(
            self.kubernetes, report=self.cache.fresh_report, may_act=lambda: self.leading, now=lambda: self.now
        )

    async def judge(self) -> None:
        for body in self.snapshots.values():
            self.retention.put(body)
        await self.retention.round()

    def begins(self, first: int) -> None:
        found = Beginnings(offsets={PARTITION: first})
        self.report(1, checkpoint_id=10, beginnings=found, updated_at=f"2026-11-21T12:00:0{first % 10}Z")
        place = ("ConfigMap", KEY.namespace, names.report_config_map(KEY.name))
        self.cache.put_report(KEY, self.kubernetes.objects[place])

    @property
    def condition(self) -> tuple[str, str]:
        (body,) = self.snapshots.values()
        found = {each["type"]: each for each in body["status"]["conditions"]}
        assert found["Ready"]["status"] == "True"
        each = found.get("OffsetsRetained", {})
        return each.get("status", ""), each.get("reason", "")


@pytest.fixture
async def rig() -> Rig:
    rig = Rig(snapshots={"intervalSeconds": 3600})
    await rig.run()
    document = CheckpointDocument(
        job_uid=UID, attempt=1, checkpoint_id=10, created_at="2026-11-21T12:00:00Z", parallelism=2,
        prefix="team.orders", splits=(KafkaPartitionSplit(PARTITION, 0, 40),),
    )  # fmt: skip
    rig.kubernetes.set_data(KEY, names.state_config_map(KEY.name), names.CHECKPOINT_KEY, encode(document))
    await rig.fill()
    await rig.settle()
    return rig


async def test_it_is_unknown_until_a_driver_says_where_the_partitions_begin(rig: Rig) -> None:
    await rig.judge()
    assert rig.condition == ("Unknown", "RetentionUnknown")
    rig.begins(40)
    await rig.judge()
    assert rig.condition == ("True", "HeldByKafka")
    writes = len(rig.kubernetes.writes)
    await rig.judge()
    assert len(rig.kubernetes.writes) == writes, "nothing has changed"


async def test_what_is_deleted_never_comes_back(rig: Rig) -> None:
    rig.begins(41)
    await rig.judge()
    assert rig.condition == ("False", "RecordsDeleted")
    rig.begins(0)
    rig.restart_operator()
    await rig.judge()
    assert rig.condition == ("False", "RecordsDeleted")


async def test_a_driver_that_is_silent_knows_nothing_any_more(rig: Rig) -> None:
    rig.begins(3)
    await rig.judge()
    rig.wait(FRESH_SECONDS + 1)
    await rig.judge()
    assert rig.condition == ("Unknown", "RetentionUnknown")


async def test_a_report_of_another_incarnation_of_the_job_counts_for_nothing(rig: Rig) -> None:
    (body,) = rig.snapshots.values()
    body["status"]["jobUID"] = "of-before"
    rig.begins(99)
    await rig.judge()
    assert rig.condition == ("Unknown", "RetentionUnknown")


async def test_an_operator_that_does_not_lead_writes_nothing(rig: Rig) -> None:
    rig.leading = False
    await rig.judge()
    assert rig.condition == ("", "")


async def test_a_conflict_is_tried_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    patch = rig.kubernetes.patch_status

    async def refused(*_: Any, **__: Any) -> None:
        raise ObjectConflict("changed")

    monkeypatch.setattr(rig.kubernetes, "patch_status", refused)
    await rig.judge()
    monkeypatch.setattr(rig.kubernetes, "patch_status", patch)
    await rig.judge()
    assert rig.condition == ("Unknown", "RetentionUnknown")


async def test_a_snapshot_without_its_config_map_is_unknown(rig: Rig) -> None:
    (body,) = rig.snapshots.values()
    rig.kubernetes.remove(("ConfigMap", KEY.namespace, body["status"]["configMap"]["name"]))
    rig.begins(0)
    await rig.judge()
    assert rig.condition == ("Unknown", "RetentionUnknown")
