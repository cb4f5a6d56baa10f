"""What retention has deleted behind a snapshot, from a real broker through the driver's report to the operator."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from kafkasparkjob_operator.decisions.checks.snapshots import judge_retention
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import DriverState, Report, beginnings_of, decode_report, encode_report
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import TopicListSubscriber
from sparkapp.source.offsets_initializer import EarliestOffsetsInitializer
from tests.support.jobs.committing_job import fill


def test_a_snapshot_says_what_retention_has_deleted(broker: str, make_topic: Callable[..., str]) -> None:
    each = TopicPartition(make_topic(1, "in"), 0)
    fill(broker, each, 20)
    view = KafkaClusterView({"bootstrap.servers": broker, "group.id": each.topic}, read_committed=True)
    source = KafkaSourceEnumerator(
        cluster=view, subscriber=TopicListSubscriber((each.topic,)), starting=EarliestOffsetsInitializer(),
        options=EnumeratorOptions(discovery_interval=0, max_offsets=100), warn=lambda *_: None,
    )  # fmt: skip
    source.start(None)
    cluster_id, ids = view.cluster_id(), view.topic_ids([each.topic])

    def judged(offset: int, *, topic_ids: dict[str, str] = ids) -> str:
        found = beginnings_of(source.beginnings(), topic_ids=topic_ids, cluster_id=cluster_id)
        text = encode_report(
            Report(job_uid="uid", attempt=1, state=DriverState.RUNNING, updated_at="now", beginnings=found)
        )
        snapshot = RetainedCheckpoint(
            job_uid="uid", attempt=1, checkpoint_id=4, created_at="2026-11-21T08:00:00Z", cluster_id=cluster_id,
            offsets={each: offset}, topic_ids=ids,
        )  # fmt: skip
        return judge_retention(snapshot, decode_report(text, job_uid="uid")).status

    assert [judged(offset) for offset in (0, 4, 20)] == ["True"] * 3
    admin = AdminClient({"bootstrap.servers": broker})
    for future in admin.delete_records([ClientPartition(*each, 6)]).values():
        future.result(30)
    assert [judged(offset) for offset in (0, 5, 6, 20)] == ["False", "False", "True", "True"]
    assert judged(20, topic_ids={each.topic: "0123456789"}) == "False"
    view.close()
