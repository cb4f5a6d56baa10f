"""``source.limits.maxRecordsPerSplit``: several subtasks read one partition, and every record is still there once."""

from __future__ import annotations

import json
import signal

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.partition import TopicPartition
from tests.integration.engine.conftest import LocalJobs
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark


def test_a_cut_partition_is_written_once_with_its_dead_letters_across_a_crash(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    job = local_job(
        partitions=1, parallelism=3, max_offsets=2000, max_records_per_split=500,
        on_record_error=OnRecordError.DEAD_LETTER, value_format=Format.JSON, value_schema="n BIGINT",
        transform=Transform(sql="SELECT key, CAST(value.n AS STRING) AS value FROM source"),
    )  # fmt: skip
    topic = job.spec.source.topics[0]
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20})
    for number in range(5100):
        producer.produce(topic, value=json.dumps({"n": number}) if number % 7 else f"bad {number}")
    assert producer.flush(30) == 0
    # Two checkpoints of 2000 records in three pieces each, then 1100 in three, all in one range of the document.
    job.start(fault="after-write@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    document = job.document()
    assert document is not None
    assert [(split.start, split.stop) for split in document.splits] == [(2000, 4000)]
    assert (document.aligned, document.evidence_group) == (False, "")
    assert sorted(committable.subtask for committable in document.committables) == [0, 1, 2]
    job.start()
    job.await_records_in(5100)
    assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == [n for n in range(5100) if n % 7]
    letters = visibility.messages(broker, job.spec.record_errors.dead_letter_topic)
    assert sorted(int((letter.value() or b"").split()[1]) for letter in letters) == list(range(0, 5100, 7))
    last = job.document()
    assert last is not None
    assert last.offsets == {TopicPartition(topic, 0): 5100}
    assert last.counters.records_out + last.counters.records_dead_lettered == 5100
