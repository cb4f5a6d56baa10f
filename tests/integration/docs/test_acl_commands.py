"""The commands of docs/kafka-acls.md grant a job all that it needs: read, write, commit, and abort as in a start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.checkpoint.claim import Claim
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.dataplane.batch import open_consumer, open_producer
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.commit_outcome import offset_mark
from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.job.client.config import OfClusters, consumer_config
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.sink.delivery import producer_config, writer_of
from sparkapp.sink.ending.log_scope import log_scope
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.spark.preflight.checks import check_kafka, check_rights
from sparkapp.spark.preflight.job_clusters import JobClusters
from tests.support.fakes.memory_store import MemoryStore
from tests.support.jobs.committing_job import CommittingJob
from tests.support.kafka.acl_guide import REQUIRED, rights_of
from tests.support.kafka.secured_broker import login, secured_broker

RECORDS = 10

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]


def committed_values(settings: dict[str, str], topic: str) -> list[bytes | None]:
    """Values that a ``read_committed`` reader gets of a topic with one partition."""
    reader = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": "true"}
    consumer = Consumer({**settings, **reader})
    consumer.assign([ClientPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    deadline = Deadline.after(30)
    try:
        while not deadline.expired:
            message = consumer.poll(deadline.bound(1.0))
            if message is not None and message.error() is None:
                found.append(message.value())
            elif message is not None and message.error().code() == KafkaError._PARTITION_EOF:
                return found
    finally:
        consumer.close()
    raise AssertionError(f"{topic} was not read to its end: {found}")


def test_the_printed_rights_suffice(tmp_path: Path) -> None:
    rights = [right for section in REQUIRED for right in rights_of(section)]
    with secured_broker(tmp_path, *rights, topics=["orders", "enriched", "orders-dlq"]) as broker:
        user, admin = login("job", "j"), login("admin", "a")
        loader = Producer({"bootstrap.servers": broker.bootstrap, **admin})
        for number in range(RECORDS):
            loader.produce("orders", str(number).encode())
        assert loader.flush(30) == 0
        attempt = CommittingJob(
            broker.bootstrap, ["orders"], "shop.orders", offset_commit=OffsetCommit.IN_TRANSACTION,
            delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE, prefix="shop.orders", client=user, admin=admin,
        )  # fmt: skip
        spec = replace(
            attempt.job.spec,
            sink=replace(attempt.job.spec.sink, topic="enriched"),
            record_errors=RecordErrors(policy=OnRecordError.DEAD_LETTER, dead_letter_topic="orders-dlq"),
        )
        job = replace(attempt.job, spec=spec)
        config = {**consumer_config(job, security={}), **user}
        cluster = KafkaClusterView(config, read_committed=True)
        check_rights(job, JobClusters(cluster, cluster), OfClusters(config, config))
        check_kafka(job, JobClusters(cluster, cluster))
        cluster.close()
        store = MemoryStore()
        claim = Claim(store, job_uid=job.uid, attempt=job.attempt)
        control = KafkaTransactionControl(job, attempt.transactions, config, claim)
        document = attempt.coordinator.document
        store.write(encode(document), expected=store.read().version)
        control.settle(document)
        control.abort_lingering(document)
        attempt.start()
        splits = attempt.plan()
        attempt.coordinator.prepare(splits)

        consumer = open_consumer(config)
        batches = list(consumer.read(splits))
        consumer.close()
        assert sum(batch.num_rows for batch in batches) == RECORDS
        shared = {"bootstrap.servers": broker.bootstrap, **user}
        pool = ProducerPool(
            open_producer=open_producer, client=attempt.transactions, config=producer_config(job, shared),
            scope=log_scope(spec),
        )  # fmt: skip
        writer = writer_of(spec.sink, pool=pool, subtask=0, next_free=attempt.coordinator.next_free)
        writer.begin(1)
        for batch in batches:
            writer.write(batch.select(["key", "value"]))
        writer.write_dead_letters(pa.RecordBatch.from_pydict({"value": [b"bad"]}), topic="orders-dlq")
        committable = writer.pre_commit(splits, group_id="shop.orders", metadata=offset_mark(job.uid, job.attempt, 1))
        assert committable is not None
        attempt.complete(splits, (committable,))
        pool.close()

        assert sorted(attempt.committed().values()) == [RECORDS]
        asking = {"bootstrap.servers": broker.bootstrap, **admin}
        assert len(committed_values(asking, "enriched")) == RECORDS
        assert committed_values(asking, "orders-dlq") == [b"bad"]
        attempt.close()
